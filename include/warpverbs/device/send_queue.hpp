#pragma once

#include "warpverbs/device/send_ring.hpp"
#include "warpverbs/device/tail.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace warpverbs::device {

/// A send queue with a collapsed CQ, as a kernel wants it: put, get a ticket, wait for the ticket.
///
/// A thread makes its own SendQueue from the view that the host passes; it lives in registers. Errors last:
/// once the queue pair has failed, every call says so until the host resets the queue. Once a sharer has
/// given up between reserving a slot and ringing for it, every post says so (kError with syndrome 0); what
/// was rung before still completes.
///
/// @tparam Sharing  Exclusive or Shared: who may post to this queue while this object lives
template <arch::Arch A, class Sharing>
class SendQueue {
 public:
  /// How long a poster waits for the doorbells before its own. They are rung within a microsecond; later than
  /// this, the thread that owes one is dead.
  static constexpr uint64_t kTurnLimitNs = 10'000'000'000;

  WARPVERBS_DEVICE explicit SendQueue(const QueueView& view)
      : ring_(view),
        tail_(view.control),
        complete_(tail_.rung() - view.depth),
        error_(A::Load(&view.control->error)) {}

  /// Writes `local` to `remote` at the peer.
  ///
  /// @param limit  how long to wait for a free slot. By default not at all: kFull instead
  /// @param flags  mlx5::CtrlFlags. Without kCqeAlways the WQE completes with the next one that has it; one
  /// in
  ///               any `depth` must have it, and the last one before a Flush()
  /// @pre     the data are visible to the caller, and stay unchanged until the ticket is done
  /// @errors  kFull, kTimeout, kAborted: nothing was posted. kError: see the class
  WARPVERBS_DEVICE Posted Put(const RemoteMemory& remote, const LocalMemory& local, const Limit& limit = {},
                              uint32_t flags = mlx5::kCqeAlways) {
    return Post(limit, [&](uint32_t index) { return ring_.PostWrite(index, remote, local, flags); });
  }

  /// As Put; it also completes a receive of the peer, which shows `imm`.
  WARPVERBS_DEVICE Posted PutImm(const RemoteMemory& remote, const LocalMemory& local, mlx5::Be32 imm,
                                 const Limit& limit = {}, uint32_t flags = mlx5::kCqeAlways) {
    return Post(limit, [&](uint32_t index) { return ring_.PostWriteImm(index, remote, local, imm, flags); });
  }

  /// As Put, of up to 28 bytes that travel in the WQE: `value` need not be registered and may change at once.
  template <InlineValue T>
  WARPVERBS_DEVICE Posted PutInline(const RemoteMemory& remote, const T& value, const Limit& limit = {},
                                    uint32_t flags = mlx5::kCqeAlways) {
    return Post(limit, [&](uint32_t index) { return ring_.PostWriteInline(index, remote, value, flags); });
  }

  /// Says whether a post is done: kOk, kPending, or kError.
  ///
  /// A post that was done before the queue pair failed is kOk as long as that can be told: a collapsed CQ
  /// keeps the newest completion only, so where a flush is all that anyone saw, the cause and what was done
  /// before it are lost.
  WARPVERBS_DEVICE Status Test(Ticket ticket) {
    const Status status = Probe(ticket);
    if (status.code != Code::kPending || !tail_.Look()) return status;
    return Probe(ticket);  // a ticket of long ago shows as done only beside the present end of the queue
  }

  /// Waits until a post is done.
  ///
  /// @errors  as Test; kTimeout, kAborted: it may still complete
  WARPVERBS_DEVICE Status Wait(Ticket ticket, const Limit& limit) {
    for (Waiter<A> waiter(limit);;) {
      const Status status = waiter.IsMilestone() ? Test(ticket) : Probe(ticket);
      if (status.code != Code::kPending) return status;
      if (const Code code = waiter.Next(); code != Code::kPending) return {.code = code};
    }
  }

  /// Waits until all is done that was posted to the queue before the call, by whomever.
  ///
  /// @errors  as Wait
  WARPVERBS_DEVICE Status Flush(const Limit& limit) {
    tail_.Look();
    return Wait({tail_.rung() - 1}, limit);
  }

  /// Leaves the end of the queue where the next kernel finds it. An exclusive poster must call it last of
  /// all.
  WARPVERBS_DEVICE void Save() const { tail_.Save(); }

 private:
  template <class Encode>
  WARPVERBS_DEVICE Posted Post(const Limit& limit, const Encode& encode) {
    uint32_t index = 0;
    Status status = Reserve(limit, index);
    if (status.ok()) status = Publish(index, encode(index));
    return {status, {index}};
  }

  /// Takes the next index if its slot is free. A free slot seen earlier is still free, so this seldom looks.
  ///
  /// A lost race for an index is no reason to give up at once: somebody else has posted meanwhile.
  WARPVERBS_DEVICE Status Reserve(const Limit& limit, uint32_t& index) {
    if (error_ != 0) return ErrorStatus(error_);
    for (Waiter<A> waiter(limit);;) {
      if (!HasRoom()) {
        if (const Status status = LookForRoom(); !status.ok()) return status;
      }
      if (HasRoom()) {
        index = tail_.next();
        if (tail_.Claim()) return {};
        complete_ = Floor();  // it was for another end of the queue
        if (limit.deadline_ns == 0) continue;
      }
      if (const Code code = waiter.Next(); code != Code::kPending) {
        return {.code = limit.deadline_ns == 0 ? Code::kFull : code};
      }
    }
  }

  WARPVERBS_DEVICE Status LookForRoom() {
    tail_.Look();
    error_ = A::Load(&ring_.view().control->error);
    if (error_ != 0) return ErrorStatus(error_);
    const arch::CqeTail cqe = LoadCqe();
    if (IsError(cqe)) return ErrorStatus(Record(ErrorWord(cqe)));
    complete_ = CompletedBelow(cqe, Floor());
    return {};
  }

  WARPVERBS_DEVICE Status Publish(uint32_t index, mlx5::Be64 doorbell) {
    if (!tail_.IsTurn(index)) {
      if (const Status status = AwaitTurn(index); !status.ok()) return status;
    }
    ring_.UpdateSendDbrRecord(index + 1);
    ring_.RingDoorbell(doorbell);
    tail_.HandOver(index);
    return {};
  }

  /// Waits until all earlier WQEs are rung, so that doorbells leave in order. Giving up leaves a gap for
  /// good.
  WARPVERBS_DEVICE Status AwaitTurn(uint32_t index) {
    for (Waiter<A> waiter({.deadline_ns = A::NowNs() + kTurnLimitNs}); !tail_.LookForTurn(index);) {
      if (waiter.IsMilestone()) error_ = A::Load(&ring_.view().control->error);
      if (error_ != 0) return ErrorStatus(error_);
      if (waiter.Next() != Code::kPending) return ErrorStatus(Record(kErrorValid | (index & 0xffff)));
    }
    return {};
  }

  WARPVERBS_DEVICE Status Probe(Ticket ticket) {
    const arch::CqeTail cqe = LoadCqe();
    if (IsError(cqe)) return Judge(ticket, ErrorWord(cqe));
    complete_ = CompletedBelow(cqe, Floor());
    return IsBefore(ticket.index, complete_) ? Done() : Status{.code = Code::kPending};
  }

  /// Tells a post that was done before the queue pair failed from one that failed with it.
  WARPVERBS_DEVICE Status Judge(Ticket ticket, uint64_t error_word) {
    if (IsBefore(ticket.index, complete_)) return Done();
    const Status status = ErrorStatus(Record(error_word));
    if (status.syndrome == static_cast<uint8_t>(mlx5::Syndrome::kFlushed)) return status;
    // No slot is freed after the failure, so the failed WQE is at most `depth` behind the end: 16 bits find
    // it.
    tail_.Look();
    const uint32_t failed = tail_.next() - static_cast<uint16_t>(tail_.next() - status.wqe_index);
    return IsBefore(ticket.index, failed) ? Done() : status;
  }

  /// Makes an error the queue's own, unless it has one already, and returns which one counts. What the NIC
  /// reports counts more than a sharer that gave up.
  WARPVERBS_DEVICE uint64_t Record(uint64_t error_word) {
    const uint64_t first = A::CompareSwap(&ring_.view().control->error, 0, error_word);
    error_ = first != 0 ? first : error_word;
    return ErrorStatus(error_).syndrome != 0 ? error_ : error_word;
  }

  WARPVERBS_DEVICE static Status Done() {
    A::AcquireAfterCompletion();
    return {};
  }

  WARPVERBS_DEVICE arch::CqeTail LoadCqe() const {
    return A::LoadCqeTail(ring_.view().cqe + mlx5::kCqeTailOffset);
  }

  /// Below it all is complete, or the slots of what has been rung would not have been free.
  WARPVERBS_DEVICE uint32_t Floor() const { return tail_.rung() - ring_.view().depth; }

  /// Where others have posted since the last look, more may be complete than that look has seen reserved.
  WARPVERBS_DEVICE bool HasRoom() const {
    return static_cast<int32_t>(tail_.next() - complete_) < static_cast<int32_t>(ring_.view().depth);
  }

  WARPVERBS_DEVICE static bool IsBefore(uint32_t a, uint32_t b) { return static_cast<int32_t>(b - a) > 0; }

  SendRing<A> ring_;
  Tail<A, Sharing> tail_;
  uint32_t complete_;  ///< below it all is complete: what was seen last
  uint64_t error_;     ///< QueueControl::error as seen last
};

}  // namespace warpverbs::device
