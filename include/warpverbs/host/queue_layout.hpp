#pragma once

#include <cstddef>
#include <cstdint>

#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {

inline constexpr uint32_t kMaxDepth = 32768;  ///< WQE indices are 16 bits, and one bit tells full from empty

/// Rounds a queue's depth up to a power of two.
///
/// @param most  the deepest that the device offers
/// @errors  Error: zero, or more than `most`
constexpr uint32_t RoundDepth(uint32_t depth, uint32_t most = kMaxDepth) {
  uint32_t rounded = 1;
  while (rounded < depth && rounded < most) rounded *= 2;
  if (depth == 0 || depth > rounded || rounded > most) {
    throw Error("create", "a queue of " + std::to_string(depth) + " entries", "the depth is out of range",
                "Ask for 1 to " + std::to_string(most) + " entries");
  }
  return rounded;
}

/// Where the parts of an endpoint lie in its queue memory, in bytes from the start.
struct QueueLayout {
  /// @param depth     of the send queue; in WQEBBs
  /// @param cq_depth  in CQEs
  constexpr QueueLayout(uint32_t depth, uint32_t cq_depth)
      : cqes(AlignUp(size_t{64} * depth, kPage)),
        control(AlignUp(cqes + size_t{64} * cq_depth, kLine)),
        qp_dbr(control + sizeof(device::QueueControl)),
        cq_dbr(qp_dbr + kLine),
        bytes(AlignUp(cq_dbr + kLine, kPage)) {}

  size_t sq = 0;
  size_t cqes;  ///< from a page's start, as the firmware wants rings
  size_t control;
  size_t qp_dbr;  ///< records are polled by the NIC: each has a cache line of its own
  size_t cq_dbr;
  size_t bytes;

 private:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kLine = 128;
  static constexpr size_t AlignUp(size_t value, size_t to) { return (value + to - 1) / to * to; }
};

}  // namespace warpverbs::host
