#pragma once

#include "warpverbs/device/completion.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

namespace warpverbs::device {

/// A ring of CQEs and its consumer: keeps every completion, where a collapsed CQ keeps the newest.
///
/// @pre  one consumer at a time
template <arch::Arch A>
class CompletionRing {
 public:
  /// @param consumer_index  completions taken so far: 0 for a new queue, else that of its last consumer
  WARPVERBS_DEVICE explicit CompletionRing(const CqView& view, uint32_t consumer_index = 0)
      : view_(view), consumer_index_(consumer_index) {}

  /// Takes the next completion: kOk or kError with the WQE's index, or kPending.
  ///
  /// The owner bit tells a new CQE from the one a round ago: it changes with each round of the ring.
  WARPVERBS_DEVICE Status PollCqOnce() {
    const uint32_t slot = consumer_index_ & (view_.depth - 1);
    const arch::CqeTail tail = A::LoadCqeTail(view_.cqe + slot * sizeof(mlx5::Cqe64) + mlx5::kCqeTailOffset);
    const bool owner = (consumer_index_ & view_.depth) != 0;
    if (Opcode(tail) == mlx5::CqeOpcode::kInvalid || OwnerBit(tail) != owner) return {.code = Code::kPending};
    ++consumer_index_;
    if (IsError(tail)) return ErrorStatus(ErrorWord(tail));
    A::AcquireAfterCompletion();
    return {.wqe_index = WqeCounter(tail)};
  }

  /// Waits for the next completion.
  ///
  /// @errors  kTimeout, kAborted: none came
  WARPVERBS_DEVICE Status PollCq(const Limit& limit) {
    for (Waiter<A> waiter(limit);;) {
      const Status status = PollCqOnce();
      if (status.code != Code::kPending) return status;
      if (const Code code = waiter.Next(); code != Code::kPending) return {.code = code};
    }
  }

  /// Gives the CQEs taken so far back to the NIC. Due before the ring is full, not after each one.
  WARPVERBS_DEVICE void UpdateCqDbrRecord() const {
    A::StoreRelease(view_.dbrec, A::ToBe32(consumer_index_ & mlx5::kCqDbrIndexMask));
  }

  WARPVERBS_DEVICE uint32_t consumer_index() const { return consumer_index_; }

 private:
  CqView view_;
  uint32_t consumer_index_;
};

}  // namespace warpverbs::device
