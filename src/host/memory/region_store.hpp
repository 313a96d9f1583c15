#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "warpverbs/device/memory.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::inline v0_2::host {

inline constexpr uint32_t kMaxRegions = 128;  ///< that a checked build can be told of, for each endpoint

/// The regions that a checked build lets through, as a kernel reads them.
struct RegionStore {
  device::RegionTable table;
  std::array<device::Region, kMaxRegions> regions;

  /// Replaces what is allowed.
  ///
  /// @param local   regions of this side, with what the NIC may do there
  /// @param remote  what the peer told of its regions
  /// @errors  Error: more than kMaxRegions in all, or one that is of no region
  void Allow(std::span<const MemoryView> local, std::span<const MemoryView> remote);
};

}  // namespace warpverbs::inline v0_2::host
