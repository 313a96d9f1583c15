#pragma once

#include <cstdint>

#include "warpverbs/device/observation.hpp"

/// The description of a queue that a kernel gets by value, and the words that all its users share. The host
/// library fills them: see host/endpoint.hpp.
namespace warpverbs::inline v0_2::device {

struct CompletionRingControl;
struct RegionTable;

/// The mutable words of a send queue. Words that posters change often have their own cache line.
struct QueueControl {
  /// reserved << 32 | published. `reserved` is the next free index. Below `published` every WQE is written,
  /// and rung or about to be. Both count WQEBBs modulo 2^32: compare by difference, never by size.
  ///
  /// With kContended, reserved << 32 | limit: slots below `limit` may be reserved. While `reserved` is past
  /// it, the reservations that end past it are void.
  alignas(128) uint64_t tail;
  uint64_t ready;  ///< with kContended: WQEBBs that are written, modulo 2^32
  /// 0, or the first error: kErrorValid | opcode << 32 | syndrome << 24 | vendor syndrome << 16 | WQE index.
  /// Stays until the reset; only a word that says more replaces it, see QueueCore::RecordError().
  alignas(128) uint64_t error;
  uint64_t* host_error;         ///< copy of `error` for the host; may be null
  CompletionRingControl* ring;  ///< ring that this queue shares with others; nullptr: its CQ is its own
  const RegionTable* regions;   ///< regions that a checked build allows; nullptr: any
  uint64_t sink;                ///< place for the 8 bytes of an atomic that fetches nothing
  /// The newest completion of this queue, as a collapsed CQ would show it; used with a shared ring.
  alignas(64) uint8_t cqe[64];
  /// Where a thread that has waited left the queue's own ring: CompletionCursor. A hint, which may be old.
  alignas(128) uint64_t cursor;
  /// Counts of all SendQueues with Counted or Traced, as far as they have added theirs.
  alignas(128) QueueCounters counters{};
  TraceRing trace{};  ///< ring of events of SendQueues with Traced
};
inline constexpr uint64_t kErrorValid = uint64_t{1} << 63;

/// What a queue and its device require of posters.
enum QueueFlags : uint32_t {
  kSharedCq = 1,  ///< completions arrive on QueueControl::ring
  /// A read or a fetch is visible only after a DUMP of its data; all data of a read are in one memory.
  kDumpAfterRead = 2,
  kNeedsSystemScope = 4,  ///< queue in host memory: releases must have system scope
  kWriteCombining = 8,    ///< the doorbell is mapped write-combining for CPU threads: arch::Mmio
  kContended = 16,        ///< all posters are Contended, and no other may post
};

/// A send queue and where its completions appear.
struct QueueView {
  uint8_t* sq;            ///< slots: 64 B * depth
  uint64_t* doorbell;     ///< UAR register, or the host word of a CPU-rung doorbell
  uint32_t* dbrec;        ///< the send half of the doorbell record; nullptr where a host thread writes it
  const uint8_t* cqe;     ///< CQEs: 64 B * cq_depth; or QueueControl::cqe; all 0xff before use
  QueueControl* control;  ///< shared mutable words
  uint32_t qpn_be;        ///< qpn << 8, big-endian
  uint32_t depth;         ///< WQEBBs; a power of two, at most 32768
  uint32_t max_message;   ///< longest message in bytes; a power of two, at most 2^30
  uint32_t sink_lkey_be;  ///< lkey of QueueControl::sink, big-endian
  uint32_t flags;         ///< QueueFlags
  /// CQEs of the queue's own CQ: a power of two, at least `depth`; or 1: the CQ is collapsed, or shared.
  uint32_t cq_depth = 1;
};
static_assert(sizeof(QueueView) == 64);

/// A ring of CQEs that its consumer drains in order.
struct CqView {
  const uint8_t* cqe;  ///< CQEs: 64 B * depth; all 0xff before use
  uint32_t* dbrec;     ///< consumer index in the CQ's doorbell record
  uint32_t depth;      ///< CQEs; a power of two
};

inline constexpr uint64_t kRingLocked = uint64_t{1} << 32;

/// A ring of CQEs that the posters of one or more send queues drain for each other.
struct CompletionRingControl {
  /// Consumer index, free-running; with kRingLocked while a thread drains the ring.
  alignas(128) uint64_t consumer;
  CqView cq;                    ///< ring at least as deep as all its queues together: it cannot overrun
  QueueControl* const* queues;  ///< queues by the user index that a CQE names; nullptr: none
};

/// A receive queue. Its completions arrive on a ring of its own, at least as deep as the queue.
struct ReceiveQueueView {
  uint8_t* rq;      ///< WQEs: stride * depth
  uint32_t* dbrec;  ///< receive half of the doorbell record
  CqView cq;
  uint64_t* state;                       ///< posted << 32 | taken, both in WQEs
  uint32_t depth;                        ///< WQEs; a power of two, at most 32768
  uint32_t stride;                       ///< bytes of a WQE: 16 for each scatter entry; a power of two
  const RegionTable* regions = nullptr;  ///< regions that a checked build allows; nullptr: any
  uint32_t first_cqe;  ///< index of receive 0's completion on the ring: a reset does not rewind a CQ
  uint32_t flags = 0;  ///< QueueFlags: kNeedsSystemScope
};

}  // namespace warpverbs::inline v0_2::device
