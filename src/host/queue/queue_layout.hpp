#pragma once

#include <cstddef>
#include <cstdint>

#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

inline constexpr uint32_t kMaxDepth = 32768;  ///< half the range of 16-bit indices: tells full from empty

/// Rounds a queue's depth up to a power of two.
///
/// @param max     the device's limit
/// @param object  name of the queue in the error
/// @errors  Error: zero, or more than `max`
constexpr uint32_t RoundDepth(uint32_t depth, uint32_t max = kMaxDepth, const char* object = "a queue") {
  uint32_t rounded = 1;
  while (rounded < depth && rounded < max) rounded *= 2;
  if (depth == 0 || depth > rounded || rounded > max) {
    throw Error("create", std::string(object) + " of " + std::to_string(depth) + " entries",
                "the depth is out of range", "Ask for 1 to " + std::to_string(max) + " entries");
  }
  return rounded;
}

constexpr size_t AlignUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

/// Returns how many CQEs a ring needs for a queue: at least two, since no driver requests a ring of one.
///
/// @source  Linux 6.6, drivers/infiniband/hw/mlx5/cq.c, mlx5_ib_create_cq(): entries + 1, to a power of two
constexpr uint32_t RingDepth(uint32_t depth) { return depth < 2 ? 2 : depth; }

/// The words of an endpoint that are always in host memory.
struct HostWords {
  alignas(128) uint64_t error;     ///< QueueControl::host_error
  alignas(128) uint64_t doorbell;  ///< doorbell that a host thread forwards to the NIC
  alignas(128) uint64_t abort;     ///< device::WaitLimit::abort
};

/// Depths and strides of an endpoint's queues.
struct QueueSizes {
  uint32_t depth = 1;     ///< send queue, in WQEBBs
  uint32_t cq_depth = 1;  ///< in CQEs; 0: completions arrive elsewhere
  uint32_t receive_depth = 0;
  uint32_t receive_stride = 0;    ///< in bytes
  uint32_t receive_cq_depth = 0;  ///< in CQEs
};

/// Offsets of the parts of an endpoint in its queue memory, in bytes.
struct QueueLayout {
  static constexpr size_t kPage = 4096;
  static constexpr size_t kLine = 128;

  /// @param ring_alignment  kPage if the endpoint has pages of its own; kLine packs the rings
  /// @source  Linux 6.6, drivers/infiniband/hw/mlx5/cq.c, create_cq_user(): a ring may start at any 1/64 of
  ///          a page
  constexpr explicit QueueLayout(const QueueSizes& sizes, size_t ring_alignment = kPage)
      : sq(size_t{sizes.receive_stride} * sizes.receive_depth),
        cqes(AlignUp(sq + size_t{64} * sizes.depth, ring_alignment)),
        receive_cqes(AlignUp(cqes + size_t{64} * sizes.cq_depth, ring_alignment)),
        control(AlignUp(receive_cqes + size_t{64} * sizes.receive_cq_depth, kLine)),
        receive_state(control + sizeof(device::QueueControl)),
        qp_dbr(AlignUp(receive_state + sizeof(uint64_t), kLine)),
        cq_dbr(qp_dbr + kLine),
        receive_cq_dbr(cq_dbr + kLine),
        bytes(receive_cq_dbr + kLine) {}

  size_t rq = 0;  ///< right before the send queue, as the firmware requires
  size_t sq;
  size_t cqes;
  size_t receive_cqes;
  size_t control;
  size_t receive_state;
  size_t qp_dbr;  ///< the NIC polls doorbell records: each has its own cache line
  size_t cq_dbr;
  size_t receive_cq_dbr;
  size_t bytes;
};

/// Offsets of the parts of an endpoint in its host memory, in bytes; HostWords come first.
struct HostLayout {
  /// @param staged_wqebbs  size of the staging copy of the send queue; 0: none
  constexpr explicit HostLayout(uint32_t staged_wqebbs) : bytes(staging + size_t{64} * staged_wqebbs) {}

  size_t staging = AlignUp(sizeof(HostWords), 128);
  size_t bytes;
};

}  // namespace warpverbs::inline v0_2::host
