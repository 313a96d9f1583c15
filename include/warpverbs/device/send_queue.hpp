#pragma once

#include "warpverbs/device/detail/producer.hpp"
#include "warpverbs/device/detail/team.hpp"

namespace warpverbs::device {

/// A send queue as a kernel wants it: post an operation, get a ticket, wait for the ticket.
///
/// Each thread makes its own SendQueue from the view that the host passes; it lives in registers. Errors
/// last: once the queue pair has failed, every call says so until the host resets it. Once a sharer has given
/// up between reserving slots and ringing for them, everybody is told so (kError with syndrome 0).
///
/// @tparam Sharing      Exclusive or Shared: who may post to this queue while this object lives
/// @tparam Cooperation  Thread, Warp or Block: who makes each posting call together; see cooperation.hpp
template <arch::Arch A, class Sharing, class Cooperation = Thread>
class SendQueue {
  static_assert(!(std::is_same_v<Sharing, Exclusive> && std::is_same_v<Cooperation, Block>),
                "the warps of a block share the queue: take Shared");

 public:
  class Batch;

  WARPVERBS_DEVICE explicit SendQueue(const QueueView& view, const Cooperation& cooperation = {})
      : producer_(view), team_(cooperation) {}
  SendQueue(const SendQueue&) = delete;  // two of an exclusive queue would post over each other
  SendQueue& operator=(const SendQueue&) = delete;
  SendQueue(SendQueue&&) = default;

  /// Posts an operation: see operations.hpp, atomics.hpp, signal.hpp.
  ///
  /// With its slots, a post on a shared queue waits for the doorbells before its own, whatever its limit
  /// says. They are rung within a microsecond; after 10 s, or if the abort word is set then, it ends the
  /// queue.
  ///
  /// @param limit  how long to wait for free slots. By default not at all: kFull instead
  /// @param flags  mlx5::CtrlFlags. Without kCqeAlways it completes with the next one that has it; one in any
  ///               `depth` slots in a row must have it, whoever posts them, and the last one before a Flush()
  /// @pre     the data are visible to the caller, and stay unchanged until the ticket is done
  /// @errors  kFull, kTimeout, kAborted, kInvalid: nothing was posted. kError: see the class
  template <class Operation>
  WARPVERBS_DEVICE Posted Post(const Operation& operation, const Limit& limit = {},
                               uint32_t flags = mlx5::kCqeAlways) {
    if constexpr (kLanesCollide) {
      return PostInTurn(Team<A, Warp>(Warp(A::ActiveLanes())), operation, limit, flags);
    } else if constexpr (!kAlone) {
      team_.Gather();
      const uint32_t slots = operation.Slots(view());
      const bool fits = Refusal(operation, slots) == Mistake::kNone && slots * team_.size() <= view().depth;
      const bool same = slots == team_.Share(slots);  // for all lanes to share, whatever fits
      if (!team_.All(fits && same)) return PostInTurn(team_, operation, limit, flags);
    }
    return PostBy(team_, operation, limit, flags);
  }

  /// Reserves slots for a batch: operations that are published together.
  ///
  /// @param slots  for each caller, the same for all of a warp
  /// @errors  as Post, in Batch::status()
  [[nodiscard]] WARPVERBS_DEVICE Batch Begin(uint32_t slots, const Limit& limit = {}) {
    static_assert(!kLanesCollide,
                  "the lanes of this processor's warps cannot wait for each other: take Warp");
    team_.Gather();
    return Batch(*this, slots, limit);
  }

  /// Says whether a post is done: kOk, kPending, or kError.
  ///
  /// A post that was done before the queue pair failed is kOk as long as that can be told: a collapsed CQ
  /// keeps the newest completion only, so where a flush is all that anyone saw, the cause and what was done
  /// before it are lost. A ring keeps both. With syndrome 0 the NIC may still execute it, until Reset().
  WARPVERBS_DEVICE Status Test(Ticket ticket) {
    const Code code = producer_.Wait(ticket, {});
    return producer_.Explain(code == Code::kTimeout ? Code::kPending : code);
  }

  /// Waits until a post is done.
  ///
  /// @errors  as Test; kTimeout, kAborted: it may still complete
  WARPVERBS_DEVICE Status Wait(Ticket ticket, const Limit& limit) {
    return producer_.Explain(producer_.Wait(ticket, limit));
  }

  /// Waits until all is done that was posted to the queue before the call, by whomever.
  ///
  /// @errors  as Wait
  WARPVERBS_DEVICE Status Flush(const Limit& limit) {
    producer_.tail().Look();
    return Wait({producer_.tail().turn() - 1}, limit);
  }

  /// Leaves the end of the queue where the next kernel finds it. An exclusive poster must call it last of
  /// all.
  WARPVERBS_DEVICE void Save() const {
    if (team_.Leads()) producer_.tail().Save();
  }

 private:
  static constexpr bool kAlone = std::is_same_v<Cooperation, Thread>;
  /// Lanes in lockstep cannot wait in loops for each other, as sharers do.
  static constexpr bool kLanesCollide = kAlone && A::kLockstep && std::is_same_v<Sharing, Shared>;

  WARPVERBS_DEVICE const QueueView& view() const { return producer_.view(); }

  WARPVERBS_DEVICE static Posted Invalid(Mistake mistake) {
    return {{.code = Code::kInvalid, .mistake = mistake}, {}};
  }

  template <class Operation>
  WARPVERBS_DEVICE Mistake Refusal(const Operation& operation, uint32_t slots) const {
    if (slots > view().depth) return slots == kTooLong ? Mistake::kMessageTooLong : Mistake::kTooManySlots;
    if constexpr (kChecked) return operation.Check(RegionCheck(view().control->regions));
    return Mistake::kNone;
  }

  /// @pre  none of the team's operations is refused, or the team is one
  template <class Team, class Operation>
  WARPVERBS_DEVICE Posted PostBy(const Team& team, const Operation& operation, const Limit& limit,
                                 uint32_t flags) {
    const uint32_t slots = operation.Slots(view());
    const Mistake mistake = Refusal(operation, slots);
    Code code = Code::kInvalid;
    uint32_t index = 0;
    if (mistake == Mistake::kNone) {
      uint32_t base = 0;
      code = Reserve(team, slots, limit, base);
      index = base + slots * team.rank();
      if (code == Code::kOk) {
        const mlx5::Be64 doorbell = operation.template Encode<A>(view(), index, flags);
        code = Publish(team, base, slots, doorbell, limit.abort);
      }
    }
    return {producer_.Explain(code, mistake), {index + slots - 1}};
  }

  /// Each lane posts by itself, one after another: what they bring differs too much, or is too much.
  template <class Operation>
  WARPVERBS_DEVICE Posted PostInTurn(const Team<A, Warp>& team, const Operation& operation,
                                     const Limit& limit, uint32_t flags) {
    Posted posted;
    for (arch::LaneMask rest = team.lanes(); rest != 0;) {
      const uint32_t lane = Team<A, Warp>::Last(rest);
      if (A::Lane() == lane) posted = PostBy(Team<A, Thread>(Thread{}), operation, limit, flags);
      // Lanes that post alone may have a queue each.
      if constexpr (!kAlone) producer_.tail().Follow(A::Shuffle(team.lanes(), producer_.tail().next(), lane));
      rest &= ~(arch::LaneMask{1} << lane);
    }
    return posted;
  }

  template <class Team>
  WARPVERBS_DEVICE Code Reserve(const Team& team, uint32_t slots, const Limit& limit, uint32_t& base) {
    Code code = Code::kOk;
    if (team.Leads()) {
      code = producer_.Reserve(slots * team.size(), limit);
      base = producer_.tail().next() - slots * team.size();
    }
    base = team.Share(base);
    return team.Share(code);
  }

  template <class Team>
  WARPVERBS_DEVICE Code Publish(const Team& team, uint32_t base, uint32_t slots, mlx5::Be64 doorbell,
                                const uint64_t* abort) {
    const uint32_t end = base + slots * team.size();
    team.Join();
    Code code = Code::kOk;
    if (team.Leads()) {
      code = producer_.Publish(base, end, doorbell, abort);
    } else {
      producer_.tail().Follow(end);
    }
    return team.Share(code);
  }

  Producer<A, Sharing> producer_;
  Team<A, Cooperation> team_;
};

/// Slots of a send queue that were reserved together and are published together.
///
/// Until Submit(), this thread posts nothing else to the queue and waits for nothing that another poster
/// does: no WQE behind these is rung for, and maybe none before them. A block's batch sends what the block
/// has written before Begin().
template <arch::Arch A, class Sharing, class Cooperation>
class SendQueue<A, Sharing, Cooperation>::Batch {
 public:
  /// kOk, or why nothing was reserved or published: then Add() and Submit() say so too.
  WARPVERBS_DEVICE const Status& status() const { return status_; }

  /// Writes an operation, without publishing it.
  ///
  /// @errors  kInvalid: nothing was added; kTooManySlots if too few are left
  template <class Operation>
  WARPVERBS_DEVICE Posted Add(const Operation& operation, uint32_t flags = mlx5::kCqeAlways) {
    if (!status_.ok()) return {status_, {}};
    const uint32_t slots = operation.Slots(queue_.view());
    Mistake mistake = queue_.Refusal(operation, slots);
    if (mistake == Mistake::kNone && slots > end_ - next_) mistake = Mistake::kTooManySlots;
    if (mistake != Mistake::kNone) return Invalid(mistake);
    doorbell_ = operation.template Encode<A>(queue_.view(), next_, flags);
    next_ += slots;
    return {{}, {next_ - 1}};
  }

  /// Publishes what was added; what was not used is filled with NOPs. A second call does nothing more.
  ///
  /// @return  the ticket of this caller's last operation, which is done after all before it
  WARPVERBS_DEVICE Posted Submit() {
    if (!submitted_ && status_.ok()) {
      while (next_ != end_) Add(Nop());
      status_ = queue_.producer_.Explain(queue_.Publish(queue_.team_, base_, slots_, doorbell_, abort_));
      submitted_ = true;
    }
    return {status_, {end_ - 1}};
  }

  /// A batch that was left posts NOPs in place of its operations: others may be waiting behind it.
  WARPVERBS_DEVICE ~Batch() noexcept(false) {
    if (!submitted_) next_ = end_ - slots_;
    Submit();
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

 private:
  friend class SendQueue;

  WARPVERBS_DEVICE Batch(SendQueue& queue, uint32_t slots, const Limit& limit)
      : queue_(queue), slots_(slots), abort_(limit.abort) {
    const bool fits = slots != 0 && uint64_t{slots} * queue.team_.size() <= queue.view().depth;
    status_ = fits ? queue.producer_.Explain(queue.Reserve(queue.team_, slots, limit, base_))
                   : Invalid(Mistake::kTooManySlots).status;
    next_ = base_ + slots * queue.team_.rank();
    end_ = next_ + slots;
  }

  SendQueue& queue_;
  uint32_t slots_;         ///< of each caller
  const uint64_t* abort_;  ///< as for Begin()
  Status status_;
  uint32_t base_ = 0;  ///< of all callers
  uint32_t next_, end_;
  mlx5::Be64 doorbell_ = {0};
  bool submitted_ = false;
};

}  // namespace warpverbs::device
