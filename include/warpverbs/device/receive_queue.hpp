#pragma once

#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/device/detail/region_check.hpp"
#include "warpverbs/device/detail/wqe_writer.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::inline v0_2::device {

/// A message or a write with immediate that has arrived.
struct [[nodiscard]] Received {
  Status status;
  uint32_t index = 0;  ///< number of the receive that took it: counts posts from 0, modulo 2^32
  uint32_t bytes = 0;  ///< bytes that arrived, in the receive's memory or where the write went
  bool has_imm = false;
  bool is_write = false;  ///< whether a write with immediate came: the receive's memory is untouched
  mlx5::Be32 imm = {};    ///< immediate data, as the peer stored it
};

/// A receive queue: post memory, get the messages that arrive in it, in the order of posting.
///
/// One thread uses it at a time. Each Submit() and each arrival stores the queue's state, so the next kernel
/// continues there. The peer's sends wait (receiver not ready) while no receive is posted.
template <arch::Arch A>
class ReceiveQueue {
 public:
  WARPVERBS_DEVICE explicit ReceiveQueue(const ReceiveQueueView& view)
      : ReceiveQueue(view, A::Load(view.state)) {}
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;
  ReceiveQueue(ReceiveQueue&&) noexcept = default;
  ReceiveQueue& operator=(ReceiveQueue&&) noexcept = default;

  /// Posts memory for one message, in up to two parts. Submit() hands it to the NIC.
  ///
  /// @errors  kFull: all receives are posted. kInvalid: two parts in a WQE with room for one; a part of 2^31
  ///          bytes or more; a wrong arch, see RequestError; an error that a checked build finds
  WARPVERBS_DEVICE Status Post(const LocalMemory& local, const LocalMemory& second = {}) {
    if (posted_ - taken() == view_.depth) return {.code = Code::kFull};
    const RequestError error = Validate(local, second);
    if (error != RequestError::kNone) return {.code = Code::kInvalid, .request_error = error};
    PostRecv(posted_++, local, second);
    return {};
  }

  /// Hands all posted receives to the NIC.
  WARPVERBS_DEVICE void Submit() const {
    UpdateRecvDbrRecord(posted_);
    Store();
  }

  /// Takes the next arrival: kOk, kPending, or kError. After an error, all later receives fail as well.
  WARPVERBS_DEVICE Received PollOnce() {
    const uint32_t index = taken();
    Received received{.status = ring_.PollCqOnce(), .index = index};
    if (received.status.code != Code::kPending) Store();
    if (!received.status.ok()) return received;
    const Completion completion = ring_.Last();
    received.bytes = completion.bytes;
    received.is_write = completion.opcode == mlx5::CqeOpcode::kResponderWriteImm;
    received.has_imm = received.is_write || completion.opcode == mlx5::CqeOpcode::kResponderSendImm;
    if (received.has_imm) received.imm = completion.imm;
    return received;
  }

  /// Waits for the next arrival.
  ///
  /// @errors  as for PollOnce(); kTimeout, kAborted: nothing arrived
  WARPVERBS_DEVICE Received Poll(const WaitLimit& limit) {
    Received received;
    received.status = WaitForStatus<A>(limit, [&] {
      received = PollOnce();
      return received.status;
    });
    return received;
  }

  /// Returns how many completions of the queue's ring have been taken, counted from the view's `first_cqe`:
  /// the input of host::CompletionAlarm. After a reset of the endpoint it is known only modulo twice the
  /// ring's depth.
  WARPVERBS_DEVICE uint32_t consumer_index() const { return ring_.consumer_index(); }

  // The low level, for code that keeps the indices itself.

  /// Writes the receive of `index`, a free-running count that starts at 0.
  ///
  /// @pre    fewer than `depth` receives before it are outstanding
  /// @source rdma-core v44, providers/mlx5/qp.c, mlx5_post_recv(): an invalid lkey ends the list
  WARPVERBS_DEVICE void PostRecv(uint32_t index, const LocalMemory& local,
                                 const LocalMemory& second = {}) const {
    uint8_t* segment = view_.rq + uint64_t{index & (view_.depth - 1)} * view_.stride;
    uint8_t* const end = segment + view_.stride;
    const LocalMemory parts[] = {local, second};
    for (const LocalMemory& part : parts) {
      if (part.bytes == 0 || segment == end) continue;
      const SegmentWords words = DataSegment<A>(part);
      A::StoreSegment(segment, words.low, words.high);
      segment += mlx5::kSegmentBytes;
    }
    if (segment != end) A::StoreSegment(segment, A::Join(0, A::ToBe32(mlx5::kInvalidLkey).raw), 0);
  }

  /// Hands every receive below `end` to the NIC; there is no doorbell to ring.
  WARPVERBS_DEVICE void UpdateRecvDbrRecord(uint32_t end) const {
    A::StoreRelease(view_.dbrec, A::ToBe32(end & mlx5::kQpDbrIndexMask).raw);
  }

 private:
  WARPVERBS_DEVICE ReceiveQueue(const ReceiveQueueView& view, uint64_t state)
      : view_(view),
        ring_(view.cq, view.first_cqe + static_cast<uint32_t>(state)),
        posted_(static_cast<uint32_t>(state >> 32)) {}

  /// Stores the state where the next kernel finds it.
  WARPVERBS_DEVICE void Store() const { A::Store(view_.state, A::Join(taken(), posted_)); }

  WARPVERBS_DEVICE RequestError Validate(const LocalMemory& local, const LocalMemory& second) const {
    if (!ReleasesFarEnough<A>(view_.flags)) return RequestError::kReleaseScope;
    if (local.bytes >= mlx5::kMaxDataBytes || second.bytes >= mlx5::kMaxDataBytes)
      return RequestError::kMessageTooLong;
    if (second.bytes != 0 && view_.stride == mlx5::kSegmentBytes) return RequestError::kTooManySlots;
    if constexpr (kChecked)
      return RegionCheck(view_.regions).Find({.local = local, .second = second, .written = true});
    return RequestError::kNone;
  }

  WARPVERBS_DEVICE uint32_t taken() const { return ring_.consumer_index() - view_.first_cqe; }

  ReceiveQueueView view_;
  CompletionRing<A> ring_;
  uint32_t posted_;
};

}  // namespace warpverbs::inline v0_2::device
