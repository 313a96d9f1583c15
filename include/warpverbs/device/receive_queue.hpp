#pragma once

#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/device/detail/region_check.hpp"
#include "warpverbs/device/detail/wqe_writer.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::inline v0_2::device {

/// A message or a write with immediate that has arrived.
struct Received {
  Status status;
  uint32_t index = 0;  ///< of the receive that took it: the n-th posted, from 0, modulo 2^32
  uint32_t bytes = 0;  ///< that came, into the receive's memory or where the write went
  bool has_imm = false;
  bool is_write = false;  ///< a write with immediate: the receive's memory is untouched
  mlx5::Be32 imm = {0};   ///< as the peer stored it
};

/// A receive queue: post memory, get what arrives in it, in the order of posting.
///
/// One thread uses it at a time, and calls Save() last of all. The peer's sends wait (receiver not ready)
/// while no receive is posted.
template <arch::Arch A>
class ReceiveQueue {
 public:
  WARPVERBS_DEVICE explicit ReceiveQueue(const ReceiveQueueView& view)
      : ReceiveQueue(view, A::Load(view.state)) {}

  /// Posts memory for one message, in up to two parts. The NIC knows of it after Submit().
  ///
  /// @errors  kFull: all receives are posted. kInvalid: two parts, and the WQEs are made for one; a part of
  ///          2^31 bytes or more; what a checked build finds
  WARPVERBS_DEVICE Status Post(const LocalMemory& local, const LocalMemory& second = {}) {
    if (posted_ - taken() == view_.depth) return {.code = Code::kFull};
    const RequestError mistake = Refusal(local, second);
    if (mistake != RequestError::kNone) return {.code = Code::kInvalid, .request_error = mistake};
    PostRecv(posted_++, local, second);
    return {};
  }

  /// Hands all posted receives to the NIC.
  WARPVERBS_DEVICE void Submit() const { UpdateRecvDbrRecord(posted_); }

  /// Takes what arrived next: kOk, kPending, or kError; then the receives behind it come back as errors too.
  WARPVERBS_DEVICE Received PollOnce() {
    const uint32_t index = taken();
    Received received{.status = ring_.PollCqOnce(), .index = index};
    if (!received.status.ok()) return received;
    const Completion completion = ring_.Last();
    received.bytes = completion.bytes;
    received.is_write = completion.opcode == mlx5::CqeOpcode::kResponderWriteImm;
    received.has_imm = received.is_write || completion.opcode == mlx5::CqeOpcode::kResponderSendImm;
    if (received.has_imm) received.imm = completion.imm;
    return received;
  }

  /// Waits for it.
  ///
  /// @errors  kTimeout, kAborted: nothing came
  WARPVERBS_DEVICE Received Poll(const WaitLimit& limit) {
    for (Waiter<A> waiter(limit);;) {
      const Received received = PollOnce();
      if (received.status.code != Code::kPending) return received;
      if (const Code code = waiter.Next(); code != Code::kPending) return {.status = {.code = code}};
    }
  }

  /// Leaves the queue where the next kernel finds it.
  WARPVERBS_DEVICE void Save() const { A::Store(view_.state, A::Join(taken(), posted_)); }

  /// Completions of the queue's ring taken so far, from the view's `first_cqe` on: what host::CompletionAlarm
  /// asks for. After a reset of the endpoint that is known modulo twice the ring's depth alone.
  WARPVERBS_DEVICE uint32_t consumer_index() const { return ring_.consumer_index(); }

  // For those who keep the indices themselves.

  /// Writes the receive of `index`, a free-running count that starts at 0.
  ///
  /// @pre    fewer than `depth` receives before it are under way
  /// @source rdma-core v44, providers/mlx5/qp.c, mlx5_post_recv(): an invalid lkey ends the list
  WARPVERBS_DEVICE void PostRecv(uint32_t index, const LocalMemory& local,
                                 const LocalMemory& second = {}) const {
    uint8_t* segment = view_.rq + uint64_t{index & (view_.depth - 1)} * view_.stride;
    uint8_t* const end = segment + view_.stride;
    const LocalMemory parts[] = {local, second};
    for (const LocalMemory& part : parts) {
      if (part.bytes == 0 || segment == end) continue;
      StoreDataSegment<A>(segment, part);
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

  WARPVERBS_DEVICE RequestError Refusal(const LocalMemory& local, const LocalMemory& second) const {
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
