#pragma once

#include <cstdint>

/// What a kernel needs of a queue, by value, and the words that all its users share. Filled by the host
/// library; see host/endpoint.hpp.
namespace warpverbs::inline v0_2::device {

struct CompletionRingControl;
struct RegionTable;

/// The mutable words of a send queue; what posters change often has a cache line of its own.
struct QueueControl {
  /// reserved << 32 | turn: the next free index, and the index below which every WQE is written, and rung or
  /// about to be. Both count WQEBBs modulo 2^32: compare by difference, never by size.
  alignas(128) uint64_t tail;
  /// 0, or the first error: kErrorValid | opcode << 32 | syndrome << 24 | vendor syndrome << 16 | WQE index.
  /// Stays until reset, but for a word that says more: see Producer::Record().
  alignas(128) uint64_t error;
  uint64_t* host_error;         ///< a copy of `error` for the host; nullptr: none
  CompletionRingControl* ring;  ///< where completions arrive; nullptr: the CQ is collapsed
  const RegionTable* regions;   ///< what a checked build allows; nullptr: anything
  uint64_t sink;                ///< takes the 8 bytes that an atomic fetches and nobody wants
  /// With a ring: the newest completion of this queue, as a collapsed CQ would show it.
  alignas(64) uint8_t cqe[64];
};
inline constexpr uint64_t kErrorValid = uint64_t{1} << 63;

/// What a device asks of its posters.
enum QueueFlags : uint32_t {
  kRingCq = 1,  ///< completions arrive on QueueControl::ring
  kDumpAfterRead =
      2,  ///< what was read or fetched is there only after a DUMP of it; all of a read lies in one memory
};

/// A send queue and where its completions appear.
struct QueueView {
  uint8_t* sq;            ///< 64 B * depth
  uint64_t* doorbell;     ///< UAR register, or the host word of a CPU-rung doorbell
  uint32_t* dbrec;        ///< the send half of the doorbell record; nullptr where a host thread writes it
  const uint8_t* cqe;     ///< the collapsed CQE, or QueueControl::cqe; all 0xff before use
  QueueControl* control;  ///< shared mutable words
  uint32_t qpn_be;        ///< qpn << 8, big-endian
  uint32_t depth;         ///< in WQEBBs; a power of two, at most 32768
  uint32_t max_message;   ///< the longest message in bytes; a power of two, at most 2^30
  uint32_t sink_lkey_be;  ///< of QueueControl::sink
  uint32_t flags;         ///< QueueFlags
};
static_assert(sizeof(QueueView) == 64);

/// A ring of CQEs that its consumer drains in order.
struct CqView {
  const uint8_t* cqe;  ///< 64 B * depth; all 0xff before use
  uint32_t* dbrec;     ///< the consumer index in the CQ's doorbell record
  uint32_t depth;      ///< in CQEs; a power of two
};

inline constexpr uint64_t kRingLocked = uint64_t{1} << 32;

/// A ring of CQEs that the posters of one or more send queues drain for each other.
struct CompletionRingControl {
  /// kRingLocked, while somebody drains it, | consumer index, free-running.
  alignas(128) uint64_t consumer;
  CqView cq;                    ///< at least as deep as all its queues together: it cannot overrun
  QueueControl* const* queues;  ///< by user index, which the CQE names; nullptr: no queue
};

/// A receive queue. Its completions arrive on a ring of its own, at least as deep as the queue.
struct ReceiveQueueView {
  uint8_t* rq;      ///< stride * depth
  uint32_t* dbrec;  ///< the receive half of the doorbell record
  CqView cq;
  uint64_t* state;                       ///< posted << 32 | taken, both in WQEs: see ReceiveQueue::Save()
  uint32_t depth;                        ///< in WQEs; a power of two, at most 32768
  uint32_t stride;                       ///< of a WQE in bytes: 16 for each scatter entry; a power of two
  const RegionTable* regions = nullptr;  ///< as in QueueControl
  uint32_t first_cqe;  ///< where on the ring the completion of receive 0 is: a reset does not rewind a CQ
};

}  // namespace warpverbs::inline v0_2::device
