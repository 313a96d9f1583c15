#pragma once

#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/device/detail/tail.hpp"
#include "warpverbs/device/send_ring.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace warpverbs::device {

/// One thread's part in a send queue: it reserves slots, publishes what was written there, and learns what
/// is complete. docs/shared-queue.md has the protocol and its proofs.
template <arch::Arch A, class Sharing>
class Producer {
 public:
  static constexpr uint64_t kTurnLimitNs = 10'000'000'000;

  WARPVERBS_DEVICE explicit Producer(const QueueView& view)
      : ring_(view), tail_(view.control), complete_(Floor()) {}

  WARPVERBS_DEVICE const QueueView& view() const { return ring_.view(); }
  WARPVERBS_DEVICE Tail<A, Sharing>& tail() { return tail_; }
  WARPVERBS_DEVICE const Tail<A, Sharing>& tail() const { return tail_; }

  /// Takes the next slots, up to tail().next(), if they are free. A free slot seen earlier is still free, so
  /// this seldom looks.
  ///
  /// A lost race is no reason to give up or to pause: somebody else has posted meanwhile. But it might be
  /// lost again and again.
  WARPVERBS_DEVICE Status Reserve(uint32_t slots, const Limit& limit) {
    constexpr uint32_t kMaxLost = 1024;
    bool looked = false;
    uint32_t lost = 0;
    for (Waiter<A> waiter(limit);;) {
      if (failed_ || !HasRoom(slots)) {
        if (const Status status = LookForRoom(); !status.ok()) return status;
        looked = true;
      }
      if (HasRoom(slots)) {
        if (tail_.Claim(slots)) return {};
        if (!looked) complete_ = Floor();  // it was for the end of the queue of maybe long ago
        if (++lost % kMaxLost != 0) continue;
      }
      if (const Code code = waiter.Next(); code != Code::kPending) {
        return {.code = limit.deadline_ns == 0 ? Code::kFull : code};
      }
    }
  }

  /// Rings for the WQEs of [base, end) once all earlier ones are handed over, or leaves that to who posts
  /// behind them.
  ///
  /// @param doorbell  of the last of them
  WARPVERBS_DEVICE Status Publish(uint32_t base, uint32_t end, mlx5::Be64 doorbell, const uint64_t* abort) {
    if (!tail_.IsTurn(base)) {
      if (const Status status = AwaitTurn(base, abort); !status.ok()) return status;
    }
    if (!LeavesDoorbell(base, end)) {
      ring_.UpdateSendDbrRecord(end);
      ring_.RingDoorbell(doorbell);
    }
    tail_.HandOver(end);
    return {};
  }

  /// Looks at the newest completion only: kOk, kPending or kError.
  WARPVERBS_DEVICE Status Probe(Ticket ticket) {
    const arch::CqeTail cqe = LoadCqe();
    if (IsError(cqe)) return Judge(ticket, Record(ErrorWord(cqe)));
    complete_ = CompletedBelow(cqe, Floor());
    return IsBefore(ticket.index, complete_) ? Done() : Status{.code = Code::kPending};
  }

  /// Looks at all there is.
  WARPVERBS_DEVICE Status Test(Ticket ticket) {
    Status status = Probe(ticket);
    if (status.code != Code::kPending) return status;
    const bool drained = DrainRing();
    if (tail_.Look() || drained) {  // a ticket of long ago shows only beside the present end of the queue
      status = Probe(ticket);
      if (status.code != Code::kPending) return status;
    }
    const uint64_t error = A::Load(&view().control->error);
    return error != 0 ? Judge(ticket, error) : status;
  }

  /// True if there is a ring, which has been drained.
  WARPVERBS_DEVICE bool DrainRing() {
    if ((view().flags & kRingCq) == 0) return false;
    Drain<A>(*view().control->ring);
    return true;
  }

 private:
  WARPVERBS_DEVICE Status LookForRoom() {
    DrainRing();
    tail_.Look();
    const uint64_t error = A::Load(&view().control->error);
    if (error != 0) return Failed(error);
    const arch::CqeTail cqe = LoadCqe();
    if (IsError(cqe)) return Failed(Record(ErrorWord(cqe)));
    complete_ = CompletedBelow(cqe, Floor());
    return {};
  }

  /// A successor has its slots already, so it will ring, or leave that to its own successor; the last one
  /// has none. Meanwhile the NIC shall not run dry: every quarter of the queue is rung for.
  WARPVERBS_DEVICE bool LeavesDoorbell(uint32_t base, uint32_t end) const {
    const uint32_t quarter = view().depth / 4;
    return tail_.HasSuccessor(end) && quarter != 0 && ((base ^ end) & ~(quarter - 1)) == 0;
  }

  /// Doorbells leave in order. Giving up leaves a gap for good.
  WARPVERBS_DEVICE Status AwaitTurn(uint32_t base, const uint64_t* abort) {
    for (Waiter<A> waiter({A::NowNs() + kTurnLimitNs, abort}); !tail_.LookForTurn(base);) {
      if (waiter.IsMilestone()) {
        if (const uint64_t error = A::Load(&view().control->error); error != 0) return Failed(error);
      }
      const Code code = waiter.Next();
      if (code == Code::kPending) continue;
      const Status status = Failed(Record(kErrorValid | (base & 0xffff)));
      return code == Code::kAborted ? Status{.code = code} : status;
    }
    return {};
  }

  /// Tells a post that was done before the queue pair failed from one that failed with it.
  WARPVERBS_DEVICE Status Judge(Ticket ticket, uint64_t error_word) {
    if (IsBefore(ticket.index, complete_)) return Done();
    const Status status = Failed(error_word);
    const auto syndrome = static_cast<mlx5::Syndrome>(status.syndrome);
    if (syndrome == mlx5::Syndrome::kFlushed || syndrome == mlx5::Syndrome::kNone) return status;
    // No slot is freed after the failure, so the failed WQE is at most `depth` behind the end: 16 bits find
    // it.
    tail_.Look();
    const uint32_t failed = tail_.next() - static_cast<uint16_t>(tail_.next() - status.wqe_index);
    return IsBefore(ticket.index, failed) ? Done() : status;
  }

  /// Makes an error the queue's own, unless it has one already, and returns which one counts. What the NIC
  /// reports counts more than a sharer that gave up.
  WARPVERBS_DEVICE uint64_t Record(uint64_t error_word) {
    QueueControl& control = *view().control;
    const uint64_t first = A::CompareSwap(&control.error, 0, error_word);
    if (first == 0 && control.host_error != nullptr) A::Store(control.host_error, error_word);
    return first != 0 && ErrorStatus(first).syndrome != 0 ? first : error_word;
  }

  /// From now on every post looks at the error first.
  WARPVERBS_DEVICE Status Failed(uint64_t error_word) {
    failed_ = true;
    return ErrorStatus(error_word);
  }

  WARPVERBS_DEVICE static Status Done() {
    A::AcquireAfterCompletion();
    return {};
  }

  WARPVERBS_DEVICE arch::CqeTail LoadCqe() const { return A::LoadCqeTail(view().cqe + mlx5::kCqeTailOffset); }

  /// Below it all is complete, or the slots of what has been reserved would not have been free.
  WARPVERBS_DEVICE uint32_t Floor() const { return tail_.next() - view().depth; }

  /// Where others have posted since the last look, more may be complete than that look has seen reserved.
  WARPVERBS_DEVICE bool HasRoom(uint32_t slots) const {
    return static_cast<int32_t>(tail_.next() + slots - complete_) <= static_cast<int32_t>(view().depth);
  }

  WARPVERBS_DEVICE static bool IsBefore(uint32_t a, uint32_t b) { return static_cast<int32_t>(b - a) > 0; }

  SendRing<A> ring_;
  Tail<A, Sharing> tail_;
  uint32_t complete_;    ///< below it all is complete: what was seen last
  bool failed_ = false;  ///< this thread has seen an error
};

}  // namespace warpverbs::device
