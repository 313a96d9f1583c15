#pragma once

#include "warpverbs/device/detail/drain.hpp"
#include "warpverbs/device/detail/tail.hpp"
#include "warpverbs/device/raw_send_queue.hpp"

namespace warpverbs::inline v0_2::device {

/// One thread's part in a send queue: it reserves slots, publishes what was written there, and learns what
/// is complete. docs/shared-queue.md has the protocol and its proofs.
template <arch::Arch A, class Sharing>
class Producer {
 public:
  static constexpr uint64_t kTurnLimitNs = 10'000'000'000;

  WARPVERBS_DEVICE explicit Producer(const QueueView& view)
      : ring_(view), tail_(view.control), complete_(Floor()), room_(view.depth) {}

  WARPVERBS_DEVICE const QueueView& view() const { return ring_.view(); }
  WARPVERBS_DEVICE Tail<A, Sharing>& tail() { return tail_; }
  WARPVERBS_DEVICE const Tail<A, Sharing>& tail() const { return tail_; }

  /// Whether the next slots are free, as far as this thread has seen.
  ///
  /// What was seen long ago is behind by more than the depth, and so leaves no room.
  WARPVERBS_DEVICE bool HasRoom(uint32_t slots) const { return tail_.next() + slots - complete_ <= room_; }

  /// False once this thread has seen an error; then every post looks first.
  WARPVERBS_DEVICE bool trusts() const { return room_ != 0; }
  WARPVERBS_DEVICE void Distrust() { room_ = 0; }

  /// Below it all is complete, as far as this thread, or who told it, has seen.
  WARPVERBS_DEVICE uint32_t complete() const { return complete_; }
  WARPVERBS_DEVICE void Learn(uint32_t complete) { complete_ = complete; }

  /// Takes the next slots, up to tail().next(), as soon as they are free: kOk, kFull, kTimeout, kAborted or
  /// kError.
  ///
  /// A lost race is no reason to give up or to pause: somebody else has posted meanwhile. But it might be
  /// lost again and again.
  WARPVERBS_DEVICE Code Reserve(uint32_t slots, const WaitLimit& limit) {
    constexpr uint32_t kMaxLost = 1024;
    uint32_t lost = 0;
    for (Waiter<A> waiter(limit);;) {
      if (!HasRoom(slots) && !LookForRoom()) return Code::kError;
      if (HasRoom(slots)) {
        if (tail_.Claim(slots)) return Code::kOk;
        if (++lost % kMaxLost != 0) continue;
      }
      if (const Code code = waiter.Next(); code != Code::kPending) {
        return limit.deadline_ns == 0 ? Code::kFull : code;
      }
    }
  }

  /// Rings for the WQEs of [base, end) once all earlier ones are handed over, or leaves that to who posts
  /// behind them: kOk or kError.
  ///
  /// @param doorbell  of the last of them
  WARPVERBS_DEVICE Code Publish(uint32_t base, uint32_t end, mlx5::Be64 doorbell, const uint64_t* abort) {
    if (__builtin_expect(!tail_.IsTurn(base), false)) {
      A::Release();  // now, when there is time: who has the turn keeps all behind it waiting
      if (const Code code = AwaitTurn(base, abort); code != Code::kOk) return code;
      if (LeavesDoorbell(base, end)) {
        tail_.PassOn(end);
        return Code::kOk;
      }
    }
    ring_.UpdateSendDbrRecord(end);
    ring_.RingDoorbell(doorbell);
    tail_.HandOver(end);
    return Code::kOk;
  }

  /// Waits until a post is done: kOk, kTimeout, kAborted or kError.
  ///
  /// A ticket of long ago shows as done only beside the present end of the queue, and an error may be known
  /// to others only: after the first look, and then now and again, it looks at both.
  WARPVERBS_DEVICE Code Wait(Ticket ticket, const WaitLimit& limit) {
    bool thorough = false;
    for (Waiter<A> waiter(limit);;) {
      Code code = Probe(ticket, thorough);
      if (code != Code::kPending) return code;
      DrainRing();
      thorough = !thorough && waiter.IsMilestone();
      if (thorough) {
        tail_.Look();
      } else if ((code = waiter.Next()) != Code::kPending) {
        return code;
      }
    }
  }

  /// Says more of a code that was returned here.
  WARPVERBS_DEVICE Status Explain(Code code) const {
    if (code == Code::kError) return ErrorStatus(A::Load(&view().control->error));
    return {.code = code};
  }

 private:
  /// False if the queue has failed.
  WARPVERBS_DEVICE bool LookForRoom() {
    DrainRing();
    tail_.Look();
    const arch::CqeTail cqe = LoadCqe();
    if (IsError(cqe)) Record(ErrorWord(cqe));
    if (A::Load(&view().control->error) != 0) {
      Distrust();
      return false;
    }
    See(cqe);
    return true;
  }

  /// A successor has its slots already, so it will ring, or leave that to its own successor; the last one
  /// has none. Meanwhile the NIC shall not run dry: every quarter of the queue is rung for.
  WARPVERBS_DEVICE bool LeavesDoorbell(uint32_t base, uint32_t end) const {
    const uint32_t quarter = view().depth / 4;
    return tail_.HasSuccessor(end) && quarter != 0 && ((base ^ end) & ~(quarter - 1)) == 0;
  }

  /// Looks at the newest completion, and at the queue's error if that says too little: kOk, kPending or
  /// kError.
  WARPVERBS_DEVICE Code Probe(Ticket ticket, bool thorough) {
    const arch::CqeTail cqe = LoadCqe();
    if (IsError(cqe)) {
      Record(ErrorWord(cqe));
    } else {
      See(cqe);
      if (IsBefore(ticket.index, complete_)) return Done();
      if (!thorough) return Code::kPending;
    }
    const uint64_t error = A::Load(&view().control->error);
    return error != 0 ? Judge(ticket, error) : Code::kPending;
  }

  WARPVERBS_DEVICE void DrainRing() {
    if ((view().flags & kRingCq) != 0) Drain<A>(*view().control->ring);
  }

  /// Doorbells leave in order. Giving up leaves a gap, which ends the queue.
  WARPVERBS_DEVICE Code AwaitTurn(uint32_t base, const uint64_t* abort) {
    if (tail_.LookForTurn(base)) return Code::kOk;
    for (Waiter<A> waiter({A::NowNs() + kTurnLimitNs, abort}, true); !tail_.LookForTurn(base);) {
      if (waiter.IsMilestone() && A::Load(&view().control->error) != 0) return Failed();
      if (waiter.Next() == Code::kPending) continue;
      Record(kErrorValid | (base & 0xffff));
      return Failed();
    }
    return Code::kOk;
  }

  /// Tells a post that was done before the queue pair failed from one that failed with it.
  WARPVERBS_DEVICE Code Judge(Ticket ticket, uint64_t error_word) {
    if (IsBefore(ticket.index, complete_)) return Done();
    if (ErrorRank(error_word) < kCause) return Failed();
    // No slot is freed after the failure, so the failed WQE is at most `depth` behind the end: 16 bits find
    // it.
    tail_.Look();
    const uint32_t failed =
        tail_.next() - static_cast<uint16_t>(tail_.next() - ErrorStatus(error_word).wqe_index);
    return IsBefore(ticket.index, failed) ? Done() : Failed();
  }

  /// Makes an error the queue's own and the host's, unless there is one that says more: a cause says more
  /// than a flush, and that more than that a poster gave up.
  WARPVERBS_DEVICE void Record(uint64_t error_word) {
    QueueControl& control = *view().control;
    Raise(&control.error, error_word);
    if (control.host_error != nullptr) Raise(control.host_error, error_word);
  }

  WARPVERBS_DEVICE static void Raise(uint64_t* word, uint64_t error_word) {
    for (uint64_t seen = 0; ErrorRank(seen) < ErrorRank(error_word);) {
      const uint64_t before = A::CompareSwap(word, seen, error_word);
      if (before == seen) return;
      seen = before;
    }
  }

  WARPVERBS_DEVICE Code Failed() {
    Distrust();
    return Code::kError;
  }

  WARPVERBS_DEVICE static Code Done() {
    A::AcquireAfterCompletion();
    return Code::kOk;
  }

  WARPVERBS_DEVICE arch::CqeTail LoadCqe() const { return A::LoadCqeTail(view().cqe + mlx5::kCqeTailOffset); }

  /// Learns from a completion. It may tell of more than this thread has seen reserved.
  WARPVERBS_DEVICE void See(const arch::CqeTail& cqe) {
    complete_ = CompletedBelow(cqe, Floor());
    if (IsBefore(tail_.next(), complete_)) complete_ = tail_.next();
  }

  /// Below it all is complete, or the slots of what has been reserved would not have been free.
  WARPVERBS_DEVICE uint32_t Floor() const { return tail_.next() - view().depth; }

  WARPVERBS_DEVICE static bool IsBefore(uint32_t a, uint32_t b) { return static_cast<int32_t>(b - a) > 0; }

  RawSendQueue<A> ring_;
  Tail<A, Sharing> tail_;
  uint32_t complete_;  ///< below it all is complete: what was seen last
  uint32_t room_;      ///< the depth, or 0 once this thread has seen an error
};

}  // namespace warpverbs::inline v0_2::device
