#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::inline v0_2::host {

/// Where the peer of an endpoint writes to.
struct RoundTripBuffer {
  uint64_t address = 0;
  uint32_t rkey = 0;
};

/// Proves that connected endpoints carry data both ways: each side writes a pattern that only the right peer
/// of the connection can know.
class RoundTrip {
 public:
  /// @errors  Error: a queue is in GPU memory; memory cannot be registered
  explicit RoundTrip(std::span<Endpoint* const> endpoints);

  /// Returns where the peer of endpoint `index` must write.
  RoundTripBuffer PlaceOf(size_t index) const;

  /// Writes to the peer of endpoint `index` and waits for the completion.
  ///
  /// @errors  Error: the write failed or did not complete by the deadline
  void Write(size_t index, uint32_t peer_qpn, const RoundTripBuffer& place, Deadline deadline);

  /// Waits for the peer's pattern.
  ///
  /// @errors  Error: the pattern is not complete at the deadline
  void Check(size_t index, uint32_t peer_qpn, Deadline deadline) const;

 private:
  uint64_t* Landing(size_t index) const;
  uint64_t* Source(size_t index) const;
  MemoryView RegionOf(size_t index) const;

  std::span<Endpoint* const> endpoints_;
  HostPages pages_;
  std::map<const Device*, MemoryRegion> regions_;
};

}  // namespace warpverbs::inline v0_2::host
