#pragma once

#include "warpverbs/device/detail/completion.hpp"
#include "warpverbs/device/detail/waiter.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

namespace warpverbs::inline v0_2::device {

/// The fields of a CQE beside its status.
struct Completion {
  mlx5::CqeOpcode opcode;
  uint32_t qpn;
  uint32_t user_index;
  uint32_t bytes;  ///< bytes received, read or fetched
  mlx5::Be32 imm;  ///< immediate data of kResponderWriteImm and kResponderSendImm, as the peer stored it
};

/// A ring of CQEs and its consumer. It keeps every completion; a collapsed CQ keeps only the newest.
///
/// @pre  one consumer at a time
template <arch::Arch A>
class CompletionRing {
 public:
  /// @param consumer_index  completions taken so far: 0 for a new queue, otherwise that of its last consumer
  WARPVERBS_DEVICE explicit CompletionRing(const CqView& view, uint32_t consumer_index = 0)
      : view_(view), consumer_index_(consumer_index) {}

  /// Takes the next completion: kOk or kError with the WQE's index, or kPending.
  WARPVERBS_DEVICE Status PollCqOnce() {
    arch::CqeTail tail;
    if (!Next(tail)) return {.code = Code::kPending};
    if (IsError(tail)) return ErrorStatus(ErrorWord(tail));
    A::AcquireAfterCompletion();
    return {.wqe_index = WqeCounter(tail)};
  }

  /// Waits for the next completion.
  ///
  /// @errors  kTimeout, kAborted: none came
  WARPVERBS_DEVICE Status PollCq(const WaitLimit& limit) {
    return WaitForStatus<A>(limit, [&] { return PollCqOnce(); });
  }

  /// Returns the fields of the last completion that was taken, until its CQE is given back.
  WARPVERBS_DEVICE Completion Last() const {
    const uint8_t* const cqe = Cqe(consumer_index_ - 1);
    const arch::CqeTail tail = A::LoadCqeTail(cqe + mlx5::kCqeTailOffset);
    return {.opcode = Opcode(tail),
            .qpn = A::ToBe32(static_cast<uint32_t>(tail.high)).raw & 0xffffff,
            .user_index = UserIndex(),
            .bytes = Field(cqe, offsetof(mlx5::Cqe64, byte_count)),
            .imm = mlx5::Be32{A::Load32(Word(cqe, offsetof(mlx5::Cqe64, imm)))}};
  }

  /// Returns Last().user_index alone.
  WARPVERBS_DEVICE uint32_t UserIndex() const {
    return Field(Cqe(consumer_index_ - 1), offsetof(mlx5::Cqe64, srqn_uidx)) & 0xffffff;
  }

  /// Gives the CQEs taken so far back to the NIC. Necessary before the ring is full, not after each CQE.
  WARPVERBS_DEVICE void UpdateCqDbrRecord() const {
    A::StoreRelease(view_.dbrec, A::ToBe32(consumer_index_ & mlx5::kCqDbrIndexMask).raw);
  }

  WARPVERBS_DEVICE uint32_t consumer_index() const { return consumer_index_; }

  /// Takes the next CQE and returns its tail; false if none has arrived.
  ///
  /// The owner bit tells a new CQE from the previous round's: it changes with each round of the ring.
  WARPVERBS_DEVICE bool Next(arch::CqeTail& tail) {
    tail = A::LoadCqeTail(Cqe(consumer_index_) + mlx5::kCqeTailOffset);
    const bool owner = (consumer_index_ & view_.depth) != 0;
    if (Opcode(tail) == mlx5::CqeOpcode::kInvalid || OwnerBit(tail) != owner) return false;
    ++consumer_index_;
    return true;
  }

 private:
  WARPVERBS_DEVICE const uint8_t* Cqe(uint32_t index) const {
    return view_.cqe + (index & (view_.depth - 1)) * sizeof(mlx5::Cqe64);
  }
  WARPVERBS_DEVICE static const uint32_t* Word(const uint8_t* cqe, size_t offset) {
    return reinterpret_cast<const uint32_t*>(cqe + offset);
  }
  WARPVERBS_DEVICE static uint32_t Field(const uint8_t* cqe, size_t offset) {
    return A::ToBe32(A::Load32(Word(cqe, offset))).raw;
  }

  CqView view_;
  uint32_t consumer_index_;
};

}  // namespace warpverbs::inline v0_2::device
