#pragma once

#include "warpverbs/device/detail/contended_queue.hpp"
#include "warpverbs/device/detail/group.hpp"
#include "warpverbs/device/list.hpp"

namespace warpverbs::inline v0_2::device {

/// What a batch keeps, for code that cannot keep a SendQueue::Batch from one call to the next.
struct BatchState {
  mlx5::Be64 doorbell{0};           ///< first 8 bytes of the last WQE
  const uint64_t* abort = nullptr;  ///< abort word of Begin()
  uint32_t slots = 0;               ///< slots of each caller
  uint32_t base = 0;                ///< first slot of all callers
  uint32_t next = 0, end = 0;       ///< the caller's slots that are left
  Status status;
  bool submitted = false;
};

/// A send queue for kernels: post an operation, get a ticket, wait for the ticket.
///
/// Each thread makes its own SendQueue from the view that the host passes; it lives in registers. Each post
/// stores where an exclusive queue continues, so the next kernel posts behind it. Errors last: once the queue
/// pair has failed, every wait returns kError until the host resets it, and so does every post of a thread
/// that has seen the error. If a poster gave up between its reservation and its doorbell, the queue fails
/// with kError and syndrome 0.
///
/// @tparam S  Exclusive, Shared, RelaxedShared or Contended: the posters of this queue while the object lives
/// @tparam C  Thread, Warp or Block: the threads that make each posting call together; see cooperation.hpp
/// @tparam V  Unobserved, Counted or Traced: what the host learns of this poster; see observation.hpp
template <arch::Arch A, Sharing S, Cooperation C = Thread, Observing V = Unobserved>
class SendQueue {
  static constexpr bool kAlone = std::is_same_v<C, Thread>;
  static constexpr bool kShares = !std::is_same_v<S, Exclusive>;
  static constexpr bool kContends = std::is_same_v<S, Contended>;
  /// Whether a group fills sectors: see WqeWriter::Fill().
  template <class G>
  static constexpr bool kFillsSectors = std::is_same_v<G, Group<A, Warp>>;
  /// Lanes in lockstep cannot wait in loops for each other, as sharers do.
  static constexpr bool kLanesCollide = kAlone && A::kLockstep && kShares;
  static_assert(kShares || !std::is_same_v<C, Block>, "the warps of a block share the queue: use Shared");

 public:
  class Batch;

  /// @param poster  what Poster() of this thread's last SendQueue returned; by default nothing is known
  /// @pre  all threads of a group make their SendQueue together, and all or none of them know something
  WARPVERBS_DEVICE explicit SendQueue(const QueueView& view, const C& cooperation = {},
                                      const PosterState& poster = {})
      : state_(view, poster), group_(cooperation) {
    // The leader alone stores the end: another lane may have loaded it before the store of an earlier queue.
    if constexpr (!kShares && !kAlone) {
      if (poster.known == 0) state_.StartAt(group_.Broadcast(state_.end().reserved()));
    }
  }
  SendQueue(const SendQueue&) = delete;  // two of an exclusive queue would post over each other
  SendQueue& operator=(const SendQueue&) = delete;
  SendQueue(SendQueue&&) noexcept = default;

  /// Posts an operation: see operations.hpp, atomics.hpp, signal.hpp.
  ///
  /// On a shared queue, a post that has its slots waits for all earlier doorbells, whatever its limit says.
  /// That takes microseconds; after 10 s during which the caller runs, or if the abort word is set then, the
  /// post ends the queue.
  ///
  /// On a contended queue, a post may first wait for the gate (see Contended) until its deadline passes, or
  /// without one for at most 10 s.
  ///
  /// An operation without kCqeAlways completes with the next one that has it. Of any `depth` consecutive
  /// slots, whichever threads post them, one must have it, and so must the last one before a Flush().
  ///
  /// @param limit  bounds the wait for free slots. By default a post does not wait: kFull
  /// @param flags  mlx5::CtrlFlags
  /// @pre     the data are visible to the caller, and stay unchanged until the ticket is done
  /// @errors  kFull, kTimeout, kAborted, kInvalid: nothing was posted. kError: see the class
  template <Operation<A> O>
  WARPVERBS_DEVICE Posted Post(const O& operation, const WaitLimit& limit = {},
                               uint32_t flags = mlx5::kCqeAlways) {
    if constexpr (kLanesCollide) {
      return PostOneByOne(Group<A, Warp>(Warp(A::ActiveLanes())), operation, limit, flags);
    } else {
      return PostBy(group_, operation, limit, flags);
    }
  }

  /// Posts an operation as Post() does if it takes one slot that is known to be free. Otherwise returns
  /// false: nothing was posted, and Post() does it.
  template <Operation<A> O>
  WARPVERBS_DEVICE bool TryPost(const O& operation, Posted& posted, const uint64_t* abort = nullptr,
                                uint32_t flags = mlx5::kCqeAlways) {
    if constexpr (kLanesCollide) return false;
    return TryPostBy(group_, operation, posted, abort, flags);
  }

  /// Posts the writes of a list by one reservation and one doorbell: see list.hpp. All threads that call
  /// together pass the same list, divide the work, and get the same ticket, which is that of all writes.
  ///
  /// Entries without bytes write nothing; a list without bytes posts a NOP.
  ///
  /// @param entries  in memory that the callers can read; they may change right after the post
  /// @errors  as for Post(): nothing was posted. kTooManySlots: the list needs more slots than the queue has
  WARPVERBS_DEVICE Posted PostList(const ListEntry* entries, uint32_t count, const WaitLimit& limit = {},
                                   uint32_t flags = mlx5::kCqeAlways) {
    if constexpr (kLanesCollide) {
      Posted posted;
      for (arch::LaneMask rest = A::ActiveLanes(); rest != 0;) {
        const uint32_t lane = Group<A, Warp>::Last(rest);
        if (A::Lane() == lane) posted = PostListBy(group_, entries, count, limit, flags);
        rest &= ~(arch::LaneMask{1} << lane);
      }
      return posted;
    } else {
      group_.SyncEnter();
      return PostListBy(group_, entries, count, limit, flags);
    }
  }

  /// Returns what this thread knows, for its next SendQueue of the same queue and policy. Void after a reset.
  WARPVERBS_DEVICE PosterState Poster() const { return state_.Poster(); }

  /// Reserves slots for a batch: operations that are published together.
  ///
  /// @param slots  slots for each caller, the same for all that call together
  /// @errors  as for Post(), in Batch::status()
  [[nodiscard]] WARPVERBS_DEVICE Batch Begin(uint32_t slots, const WaitLimit& limit = {}) {
    static_assert(!kLanesCollide, "the lanes of this processor's warps cannot wait for each other: use Warp");
    group_.SyncEnter();
    return Batch(*this, slots, limit);
  }

  /// Continues a batch that was suspended.
  [[nodiscard]] WARPVERBS_DEVICE Batch Resume(const BatchState& state) { return Batch(*this, state); }

  /// Tests whether a post is done: kOk, kPending or kError; kInvalid for a post that was refused.
  ///
  /// A post that was done before the queue pair failed returns kOk. Only a collapsed CQ may not show that: it
  /// keeps the newest completion, and if a flush is all that a thread saw, the cause and the posts that were
  /// done before it are lost. With syndrome 0 the NIC may still execute the post, until Reset().
  WARPVERBS_DEVICE Status Test(Ticket ticket) {
    const Code code = state_.Wait(ticket, {});
    return state_.WaitStatus(code == Code::kTimeout ? Code::kPending : code);
  }

  /// Waits until a post is done.
  ///
  /// @errors  as for Test(); kTimeout, kAborted: the post may still complete
  WARPVERBS_DEVICE Status Wait(Ticket ticket, const WaitLimit& limit) {
    return state_.WaitStatus(state_.Wait(ticket, limit));
  }

  /// Waits until everything is done that any thread posted to the queue before the call. On a contended queue
  /// also for batches that were begun before: their slots are among the others.
  ///
  /// @errors  as for Wait()
  WARPVERBS_DEVICE Status Flush(const WaitLimit& limit) {
    Ticket last;
    if (const Code code = state_.LastTicket(last, limit); code != Code::kOk) return state_.WaitStatus(code);
    return Wait(last, limit);
  }

 private:
  WARPVERBS_DEVICE const QueueView& view() const { return state_.view(); }

  WARPVERBS_DEVICE Posted Refused(RequestError error) const {
    return {{.code = Code::kInvalid, .request_error = error}, state_.RefusedTicket()};
  }

  template <class O>
  WARPVERBS_DEVICE RequestError Validate(const O& operation, uint32_t slots) const {
    if (slots > view().depth)
      return slots == kTooLong ? RequestError::kMessageTooLong : RequestError::kTooManySlots;
    if constexpr (kChecked) return operation.Check(RegionCheck(view().control->regions));
    return RequestError::kNone;
  }

  /// Posts a list by the threads of a group: counts the slots, reserves them, and writes.
  template <class G>
  WARPVERBS_DEVICE Posted PostListBy(const G& group, const ListEntry* entries, uint32_t count,
                                     const WaitLimit& limit, uint32_t flags) {
    state_.observer().Begin();
    ListPart<A, kFillsSectors<G>> part(view(), group.warp(), entries, group.ShareOf(count));
    const RankSum written = group.SumOverWarps(part.CountSlots());
    const uint32_t slots = written.all != 0 ? written.all : 1;
    RequestError error = slots <= view().depth ? RequestError::kNone : RequestError::kTooManySlots;
    if constexpr (kChecked) {
      if (error == RequestError::kNone)
        error = FirstOf(group, part.Check(RegionCheck(view().control->regions)));
    }
    if (error != RequestError::kNone) return Refused(error);
    uint32_t base = 0;
    if (!TryReserve(group, true, slots, limit.abort, base)) {
      if (!group.AllTrue(state_.ok())) state_.MarkFailed();
      const Code code = Reserve(group, slots, limit, base);
      if (code != Code::kOk) return {state_.ToStatus(code), state_.RefusedTicket()};
    }
    const uint32_t end = base + slots;
    mlx5::Be64 doorbell = part.Doorbell(end - 1);
    if (written.all != 0) {
      part.Encode(base + written.before, end - 1, flags);
    } else if (group.IsLeader()) {
      doorbell = Nop().Encode<A>(view(), base, flags);
    }
    return {Publish(group, base, end, doorbell, limit.abort), {end - 1}};
  }

  /// Returns the smallest error that a thread of a group has found.
  template <class G>
  WARPVERBS_DEVICE static RequestError FirstOf(const G& group, RequestError mine) {
    if (group.AllTrue(mine == RequestError::kNone)) return RequestError::kNone;
    for (uint8_t error = 1;; ++error) {
      if (!group.AllTrue(static_cast<uint8_t>(mine) != error)) return static_cast<RequestError>(error);
    }
  }

  /// Reserves `all` slots of a group if all its threads want to and the slots are known to be free.
  template <class G>
  WARPVERBS_DEVICE bool TryReserve(const G& group, bool wanted, uint32_t all, const uint64_t* abort,
                                   uint32_t& base) {
    if constexpr (kContends || std::is_same_v<G, Group<A, Block>>) {
      bool taken = group.AllTrue(wanted & state_.ok()) && group.IsLeader();
      if (taken) taken = state_.TryReserve(all, abort);
      const Code code = taken ? Code::kOk : Code::kFull;
      taken = BroadcastReservation(group, state_.end().reserved() - all, code, base) == Code::kOk;
      if (!taken) group.SyncEnter();  // for the next broadcast
      return taken;
    } else if constexpr (kShares) {
      const bool all_want = group.AllTrue(wanted & state_.ok());
      const bool fits = state_.HasCredit(all);
      bool taken = all_want & fits & group.IsLeader();
      uint32_t before = 0;
      if (taken) before = state_.end().BeginReserve(all);
      base = group.Broadcast(state_.end().reserved());  // while the compare-swap is on its way
      taken = taken && state_.end().EndReserve(all, before);
      return group.AllTrue(taken | !group.IsLeader());
    } else {
      if constexpr (kChecked) wanted = wanted && (!group.IsLeader() || state_.end().IsOnlyPoster());
      base = state_.end().reserved();  // each lane counts for itself, without a broadcast of the leader
      return group.AllTrue(wanted & state_.HasCredit(all)) && state_.end().TryReserve(all);
    }
  }

  /// Reserves `all` slots of a group as soon as they are free.
  template <class G>
  WARPVERBS_DEVICE Code Reserve(const G& group, uint32_t all, const WaitLimit& limit, uint32_t& base) {
    Code code = Code::kOk;
    if (group.IsLeader()) code = state_.Reserve(all, limit);
    code = BroadcastReservation(group, state_.end().reserved() - all, code, base);
    if constexpr (!kShares && !kAlone) {
      A::AcquireAfterCompletion();  // the lanes believe the leader's CQEs
      group.Sync();
      state_.cursor().Set(group.Broadcast(state_.cursor().word()));
    }
    return code;
  }

  /// Publishes for a group. Checks whether a block's leader is next: threads and warps come here only if they
  /// are not, and contended posters check by themselves. In QueueState::Publish() the check would make a
  /// warp's post in the device library 34 instructions longer.
  template <class G>
  WARPVERBS_DEVICE Code PublishAsLeader(uint32_t base, uint32_t end, mlx5::Be64 doorbell,
                                        const uint64_t* abort) {
    if constexpr (!kContends && std::is_same_v<G, Group<A, Block>>) {
      if (state_.end().IsNextToPublish(base)) {
        state_.Ring(base, end, doorbell);
        return Code::kOk;
      }
    }
    return state_.Publish(base, end, doorbell, abort);
  }

  /// Publishes what the threads of a group have written.
  ///
  /// Ends with a barrier on a shared queue: what a thread does afterwards, a Flush() or a post that it leads,
  /// comes behind the leader's stores.
  ///
  /// @param doorbell  of the leader: first 8 bytes of the last WQE
  template <class G>
  WARPVERBS_DEVICE Status Publish(const G& group, uint32_t base, uint32_t end, mlx5::Be64 doorbell,
                                  const uint64_t* abort) {
    group.Sync();
    if constexpr (!kShares) {
      RingAsGroup(group, base, end, doorbell);
      return {};
    } else {
      if constexpr (!kContends && !std::is_same_v<G, Group<A, Block>>) {
        // The group votes while the WQEs are on their way to memory. A post that is next cannot fail. Not for
        // a block, whose vote is one more barrier.
        const bool follows = !group.IsLeader();
        if (__builtin_expect(group.AllTrue(follows | state_.end().IsNextToPublish(base)), true)) {
          RingAsGroup(group, base, end, doorbell);
          group.Sync();
          return {};
        }
      }
      Code code = Code::kOk;
      if (group.IsLeader()) code = PublishAsLeader<G>(base, end, doorbell, abort);
      code = group.Broadcast(code);
      if constexpr (!std::is_same_v<G, Group<A, Block>>) group.Sync();  // a block's broadcast is a barrier
      if (!group.IsLeader() && code == Code::kOk) state_.end().SetReserved(end);
      return state_.ToStatus(code);
    }
  }

  /// Rings for a post that is next.
  template <class G>
  WARPVERBS_DEVICE void RingAsGroup(const G& group, uint32_t base, uint32_t end, mlx5::Be64 doorbell) {
    if (group.IsLeader()) {
      state_.Ring(base, end, doorbell);
    } else {
      state_.end().SetReserved(end);
    }
  }

  /// Posts on the fast path without branches: a branch costs a lone warp more than the arithmetic that it
  /// saves. Returns false if that is not possible.
  template <class G, class O>
  WARPVERBS_DEVICE bool TryPostBy(const G& group, const O& operation, Posted& posted, const uint64_t* abort,
                                  uint32_t flags) {
    state_.observer().Begin();
    const uint32_t slots = operation.Slots(view());
    const bool fast = (slots == 1) & (Validate(operation, slots) == RequestError::kNone);
    uint32_t base = 0;
    const bool reserved = TryReserve(group, fast, group.size(), abort, base);
    const uint32_t index = base + group.rank();
    mlx5::Be64 doorbell;
    if constexpr (!std::is_same_v<G, Group<A, Thread>> && EncodesEarly<O, A>) {
      // Encodes while the lanes vote. A lone thread does not vote, so a branch is faster for it.
      doorbell = operation.template EncodeOneIf<A, kFillsSectors<G>>(reserved, view(), index, flags);
      if (!__builtin_expect(reserved, true)) return false;
    } else {
      if (!__builtin_expect(reserved, true)) return false;
      doorbell = EncodeOne<A>(operation, view(), index, flags);
    }
    posted = {Publish(group, base, base + group.size(), doorbell, abort), {index}};
    return true;
  }

  template <class G, class O>
  WARPVERBS_DEVICE Posted PostBy(const G& group, const O& operation, const WaitLimit& limit, uint32_t flags) {
    Posted posted;
    if (TryPostBy(group, operation, posted, limit.abort, flags)) return posted;
    return PostSlow(group, operation, limit, flags);
  }

  /// Posts by one reservation if all operations are valid, take the same number of slots, and fit into the
  /// queue together. Otherwise the warps of a block post one by one, and so do the lanes of a warp.
  template <class Cooperating, class O>
  WARPVERBS_DEVICE Posted PostSlow(const Group<A, Cooperating>& group, const O& operation,
                                   const WaitLimit& limit, uint32_t flags) {
    const uint32_t slots = operation.Slots(view());
    const RequestError error = Validate(operation, slots);
    if constexpr (std::is_same_v<Cooperating, Thread>) {
      if (error != RequestError::kNone) return Refused(error);
    } else {
      const bool same = slots == group.Broadcast(slots);  // a call of all threads, so it comes first
      const bool fits = error == RequestError::kNone && slots * group.size() <= view().depth;
      if (!group.AllTrue(fits && same)) {
        if constexpr (std::is_same_v<Cooperating, Block>) {
          const Posted posted = PostBy(group.warp(), operation, limit, flags);
          group.Sync();  // as every call of a block ends
          return posted;
        } else {
          return PostOneByOne(group, operation, limit, flags);
        }
      }
    }
    if (!group.AllTrue(state_.ok()))
      state_.MarkFailed();  // the leader learns of an error that any thread has seen
    uint32_t base = 0;
    const Code code = Reserve(group, slots * group.size(), limit, base);
    if (code != Code::kOk) return {state_.ToStatus(code), state_.RefusedTicket()};
    const uint32_t index = base + slots * group.rank();
    const mlx5::Be64 doorbell = operation.template Encode<A>(view(), index, flags);
    return {Publish(group, base, base + slots * group.size(), doorbell, limit.abort), {index + slots - 1}};
  }

  /// Lets each lane post for itself, one after another: their operations differ too much, or are too many.
  template <class O>
  WARPVERBS_DEVICE Posted PostOneByOne(const Group<A, Warp>& group, const O& operation,
                                       const WaitLimit& limit, uint32_t flags) {
    Posted posted;
    for (arch::LaneMask rest = group.lanes(); rest != 0;) {
      const uint32_t lane = Group<A, Warp>::Last(rest);
      if (A::Lane() == lane) posted = PostBy(Group<A, Thread>(Thread{}), operation, limit, flags);
      // All lanes keep the end of an exclusive queue in registers.
      if constexpr (!kAlone && !kShares) {
        state_.end().SetReserved(A::Shuffle(group.lanes(), state_.end().reserved(), lane));
        A::SyncLanes(group.lanes());  // orders the lanes' stores of the end
      }
      rest &= ~(arch::LaneMask{1} << lane);
    }
    if constexpr (!kAlone && kShares) A::SyncLanes(group.lanes());  // as every call of a warp ends
    return posted;
  }

  /// Broadcasts the leader's code and, for kOk, where its reserved slots begin.
  template <class G>
  WARPVERBS_DEVICE Code BroadcastReservation(const G& group, uint32_t leaders_base, Code code,
                                             uint32_t& base) const {
    const uint64_t both = group.Broadcast(A::Join(leaders_base, static_cast<uint32_t>(code)));
    base = static_cast<uint32_t>(both);
    return static_cast<Code>(both >> 32);
  }

  QueueState<A, S, V> state_;
  Group<A, C> group_;
};

/// Slots of a send queue that were reserved together and are published together.
///
/// Until Submit(), this thread must not post anything else to the queue, and must not wait for another
/// poster: the doorbells of later WQEs wait for this batch, and those of earlier ones may. A block's batch
/// sends what the block has written before Submit().
template <arch::Arch A, Sharing S, Cooperation C, Observing V>
class SendQueue<A, S, C, V>::Batch {
 public:
  /// kOk, or why nothing was reserved or published; Add() and Submit() then return it, too.
  WARPVERBS_DEVICE const Status& status() const { return state_.status; }

  /// Writes an operation without publishing it.
  ///
  /// @errors  kInvalid: nothing was added; kTooManySlots if too few are left
  template <Operation<A> O>
  WARPVERBS_DEVICE Posted Add(const O& operation, uint32_t flags = mlx5::kCqeAlways) {
    const uint32_t slots = operation.Slots(queue_.view());
    RequestError error = queue_.Validate(operation, slots);
    if (__builtin_expect((slots == 1) & (error == RequestError::kNone) & (state_.next != state_.end), true)) {
      state_.doorbell = EncodeOne<A>(operation, queue_.view(), state_.next, flags);
    } else {
      if (!state_.status.ok()) return {state_.status, queue_.state_.RefusedTicket()};
      if (error == RequestError::kNone && slots > state_.end - state_.next)
        error = RequestError::kTooManySlots;
      if (error != RequestError::kNone) return queue_.Refused(error);
      state_.doorbell = operation.template Encode<A>(queue_.view(), state_.next, flags);
    }
    state_.next += slots;
    return {{}, {state_.next - 1}};
  }

  /// Publishes what was added, and fills unused slots with NOPs. A second call does nothing more.
  ///
  /// @return  the ticket of this caller's last operation, which is done after all before it
  WARPVERBS_DEVICE Posted Submit() {
    if (!state_.submitted && state_.status.ok()) {
      while (state_.next != state_.end) FillWithNop();
      const uint32_t end = state_.base + state_.slots * queue_.group_.size();
      state_.status = queue_.Publish(queue_.group_, state_.base, end, state_.doorbell, state_.abort);
      state_.submitted = true;
    }
    return {state_.status, {state_.end - 1}};
  }

  /// Returns what Resume() needs, and leaves the batch to that: this object then does nothing more.
  WARPVERBS_DEVICE BatchState Suspend() {
    const BatchState kept = state_;
    state_.submitted = true;
    return kept;
  }

  /// Publishes NOPs in place of the operations if the batch was not submitted: others may wait behind it.
  WARPVERBS_DEVICE ~Batch() noexcept(false) {
    if (!state_.submitted) {
      state_.next = state_.end - state_.slots;
      static_cast<void>(Submit());
    }
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

 private:
  friend class SendQueue;

  WARPVERBS_DEVICE Batch(SendQueue& queue, const BatchState& state) : queue_(queue), state_(state) {}
  WARPVERBS_DEVICE Batch(SendQueue& queue, uint32_t slots, const WaitLimit& limit) : queue_(queue) {
    queue.state_.observer().Begin();
    state_.slots = slots;
    state_.abort = limit.abort;
    const uint64_t all = uint64_t{slots} * queue.group_.size();
    const auto wanted = static_cast<uint32_t>(all);
    if (all == 0 || all > queue.view().depth) {
      state_.status = {.code = Code::kInvalid, .request_error = RequestError::kTooManySlots};
    } else if (!queue.TryReserve(queue.group_, true, wanted, limit.abort, state_.base)) {
      state_.status = queue.state_.ToStatus(queue.Reserve(queue.group_, wanted, limit, state_.base));
    }
    state_.next = state_.base + slots * queue.group_.rank();
    state_.end = state_.next + slots;
    if (!state_.status.ok()) state_.next = state_.end = queue.state_.RefusedTicket().index + 1;
  }

  WARPVERBS_DEVICE void FillWithNop() {
    state_.doorbell = Nop().Encode<A>(queue_.view(), state_.next++, mlx5::kCqeAlways);
  }

  SendQueue& queue_;
  BatchState state_;
};

/// Calls `use` with a SendQueue of this thread, for code that learns only at run time which posters a queue
/// was made for: Contended on a queue with kContended, otherwise Shared.
///
/// @param use     callable that takes either SendQueue by reference, and returns the same type for both
/// @param poster  as for SendQueue
/// @pre  no exclusive poster uses the queue meanwhile
/// @return  what `use` returns
template <arch::Arch A, class F>
WARPVERBS_DEVICE auto WithSendQueue(const QueueView& view, const F& use, const PosterState& poster = {}) {
  if ((view.flags & kContended) != 0) {
    SendQueue<A, Contended> queue(view, {}, poster);
    return use(queue);
  }
  SendQueue<A, Shared> queue(view, {}, poster);
  return use(queue);
}

}  // namespace warpverbs::inline v0_2::device
