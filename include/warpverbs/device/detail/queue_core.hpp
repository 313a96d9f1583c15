#pragma once

#include "warpverbs/device/detail/completion_cursor.hpp"
#include "warpverbs/device/detail/drain.hpp"
#include "warpverbs/device/detail/observer.hpp"
#include "warpverbs/device/detail/queue_end.hpp"
#include "warpverbs/device/raw_send_queue.hpp"

namespace warpverbs::inline v0_2::device {

/// Returns false if the words of the queue mean something else to these posters: it was made for others.
template <Sharing S>
WARPVERBS_DEVICE bool IsMadeFor(uint32_t queue_flags) {
  return (queue_flags & kContended) == (std::is_same_v<S, Contended> ? uint32_t{kContended} : 0);
}

/// Returns why a poster may not post to a queue at all, or kNone.
template <arch::Arch A, Sharing S>
WARPVERBS_DEVICE RequestError MisuseOf(uint32_t queue_flags) {
  if (!ReleasesFarEnough<A>(queue_flags)) return RequestError::kReleaseScope;
  return IsMadeFor<S>(queue_flags) ? RequestError::kNone : RequestError::kSharing;
}

/// One thread's state of a send queue, but for the protocol of its posters: free slots, completions, errors.
template <arch::Arch A, Sharing S, Observing O>
class QueueCore : private Observer<A, O> {
 public:
  static constexpr uint64_t kPublishLimitNs = 10'000'000'000;  ///< on a RunClock

  /// A poster that may not post gets no credit: its posts then take the slow path, and only that one looks
  /// for the reason.
  WARPVERBS_DEVICE explicit QueueCore(const QueueView& view, const PosterState& poster)
      : Observer<A, O>(view.control),
        queue_(view),
        end_(view.control, poster),
        cursor_(end_.reserved()),
        credit_(MisuseOf<A, S>(view.flags) == RequestError::kNone ? view.depth : 0) {
    if (poster.known == 0) return;
    cursor_.Set(A::Join(poster.completed, poster.next));
    credit_ = poster.credit;
  }

  WARPVERBS_DEVICE PosterState Poster() const {
    PosterState poster = end_.Poster();
    poster.completed = cursor_.completed();
    poster.next = static_cast<uint32_t>(cursor_.word() >> 32);
    poster.credit = credit_;
    poster.known = 1;
    return poster;
  }

  WARPVERBS_DEVICE const QueueView& view() const { return queue_.view(); }
  WARPVERBS_DEVICE QueueEnd<A, S>& end() { return end_; }
  WARPVERBS_DEVICE const QueueEnd<A, S>& end() const { return end_; }

  /// Returns false once this thread has seen an error: every later post then checks the queue first.
  WARPVERBS_DEVICE bool ok() const { return credit_ != 0; }
  WARPVERBS_DEVICE void MarkFailed() { credit_ = 0; }

  WARPVERBS_DEVICE Observer<A, O>& observer() { return *this; }

  /// What this thread knows of the completions.
  WARPVERBS_DEVICE const CompletionCursor<A>& cursor() const { return cursor_; }
  WARPVERBS_DEVICE CompletionCursor<A>& cursor() { return cursor_; }

  /// Waits until a post is complete: kOk, kTimeout, kAborted, kError, or kInvalid for a post that was
  /// refused and on a queue for other posters.
  WARPVERBS_DEVICE Code Wait(Ticket ticket, const WaitLimit& limit) {
    if (__builtin_expect(!IsMadeFor<S>(view().flags), false)) return Code::kInvalid;
    observer().BeginWait(limit);
    const Code code = WaitUntil<A>(limit, [&](bool check_due) {
      const Code found = Probe(ticket, check_due);
      observer().Probed(found);
      return found;
    });
    observer().EndWait(ticket, code);
    return code;
  }

  /// Returns a ticket that is not done before 2^30 more slots are posted: it is far ahead of the reserved
  /// slots, also for a waiter that saw them long ago.
  WARPVERBS_DEVICE Ticket RefusedTicket() const { return {end_.reserved() + (1u << 30)}; }

  /// Returns the Status of a code that Reserve() or Publish() returned.
  WARPVERBS_DEVICE Status ToStatus(Code code) const {
    if (code == Code::kError) return ErrorStatus(A::Load(&view().control->error));
    if (code != Code::kInvalid) return {.code = code};
    const RequestError misuse = MisuseOf<A, S>(view().flags);
    return {.code = code,
            .request_error = misuse != RequestError::kNone ? misuse : RequestError::kSecondPoster};
  }

  /// Returns the Status of a code that Wait() returned.
  WARPVERBS_DEVICE Status WaitStatus(Code code) const {
    if (code != Code::kInvalid) return ToStatus(code);
    return {
        .code = code,
        .request_error = IsMadeFor<S>(view().flags) ? RequestError::kRefusedTicket : RequestError::kSharing};
  }

 protected:
  /// Looks for completions up to end().reserved(). Returns false if the queue has failed.
  ///
  /// @pre  what this thread loads now is at least as new as end()
  WARPVERBS_DEVICE bool UpdateCompleted() {
    const uint64_t failure = cursor_.Search(view(), end_.reserved(), end_.reserved() - 1);
    if (failure != 0) RecordError(failure);
    if (A::Load(&view().control->error) != 0) {
      MarkFailed();
      return false;
    }
    return true;
  }

  WARPVERBS_DEVICE void DrainRing() {
    if ((view().flags & kSharedCq) != 0) Drain<A>(*view().control->ring);
  }

  /// Records an error for all posters and for the host, unless they have one that says more: a cause says
  /// more than a flush, and a flush more than a poster that gave up.
  WARPVERBS_DEVICE void RecordError(uint64_t error_word) {
    QueueControl& control = *view().control;
    RaiseTo(&control.error, error_word);
    if (control.host_error != nullptr) RaiseTo(control.host_error, error_word);
  }

  WARPVERBS_DEVICE Code Failed() {
    MarkFailed();
    return Code::kError;
  }

  /// Waits until the posters before the caller, which holds the slots from `base` on or the gate in front of
  /// them, have done what `done()` looks for: kOk or kError. A poster that gives up leaves a gap, which ends
  /// the queue; so does the caller's abort.
  ///
  /// This is the hand-over between posters, written out since a GPU takes a fifth longer for it by
  /// WaitUntil(): see docs/performance.md.
  template <class Done>
  WARPVERBS_DEVICE Code AwaitPredecessors(uint32_t base, const uint64_t* abort, Done done) {
    if (done()) return Code::kOk;
    for (Waiter<A, RunClock<A>> waiter({kPublishLimitNs, abort}, true); !done();) {
      observer().Pending(Stall::kTurn);
      if (waiter.CheckDue() && A::Load(&view().control->error) != 0) return Failed();
      if (waiter.Next() == Code::kPending) continue;
      if (done()) break;  // it may have been stopped since it looked
      return GiveUp(base);
    }
    return Code::kOk;
  }

  WARPVERBS_DEVICE Code GiveUp(uint32_t base) {
    RecordError(kErrorValid | (base & 0xffff));
    return Failed();
  }

  RawSendQueue<A> queue_;
  QueueEnd<A, S> end_;
  CompletionCursor<A> cursor_;
  uint32_t credit_;  ///< the depth, or 0 once this thread has seen an error or may not post

 private:
  /// Checks once whether a post is complete.
  ///
  /// An old ticket shows as complete only next to the current end of the queue, and another thread may have
  /// seen an error that this CQE does not show. So when checks are due, both are reloaded once.
  WARPVERBS_DEVICE Code Probe(Ticket ticket, bool check_due) {
    using Found = typename CompletionCursor<A>::Found;
    const Found found = cursor_.Peek(view(), end_.reserved(), ticket.index);
    if (__builtin_expect(found == Found::kDone, true)) return Done();
    for (bool thorough = false;; thorough = true) {
      uint64_t failure = 0;
      if (found == Found::kUnclear || (thorough && cursor_.MayFindMore(view(), end_.reserved()))) {
        failure = cursor_.Search(view(), end_.reserved(), ticket.index);
        if (failure == 0 && IsBefore(ticket.index, cursor_.completed())) return Done();
      }
      if (failure != 0) RecordError(failure);
      if (thorough || failure != 0) {
        const uint64_t error = A::Load(&view().control->error);
        if (error != 0) return Classify(ticket, error);
        if (thorough) {
          const uint32_t last = end_.reserved() + view().depth;  // another poster may be about to post it
          return IsBefore(ticket.index, last) ? Code::kPending : Code::kInvalid;
        }
      }
      DrainRing();
      if (!check_due) return Code::kPending;
      end_.Reload();
    }
  }

  /// Tells a post that completed before the queue pair failed from one that failed with it.
  WARPVERBS_DEVICE Code Classify(Ticket ticket, uint64_t error_word) {
    if (IsBefore(ticket.index, cursor_.completed())) return Done();
    if (ErrorRank(error_word) < kCause) return Failed();
    // No slot is freed after the failure, so the failed WQE is at most `depth` behind the end: 16 bits find
    // it.
    end_.Reload();
    const uint32_t reserved = end_.reserved();
    const uint32_t failed = reserved - static_cast<uint16_t>(reserved - ErrorStatus(error_word).wqe_index);
    return IsBefore(ticket.index, failed) ? Done() : Failed();
  }

  WARPVERBS_DEVICE static void RaiseTo(uint64_t* word, uint64_t error_word) {
    for (uint64_t seen = 0; ErrorRank(seen) < ErrorRank(error_word);) {
      const uint64_t before = A::CompareSwap(word, seen, error_word);
      if (before == seen) return;
      seen = before;
    }
  }

  WARPVERBS_DEVICE static Code Done() {
    A::AcquireAfterCompletion();
    return Code::kOk;
  }

  WARPVERBS_DEVICE static bool IsBefore(uint32_t a, uint32_t b) { return static_cast<int32_t>(b - a) > 0; }
};

}  // namespace warpverbs::inline v0_2::device
