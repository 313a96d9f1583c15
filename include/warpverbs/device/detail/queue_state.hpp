#pragma once

#include "warpverbs/device/cooperation.hpp"
#include "warpverbs/device/detail/completion_cursor.hpp"
#include "warpverbs/device/detail/drain.hpp"
#include "warpverbs/device/raw_send_queue.hpp"

/// The protocol of a send queue. docs/shared-queue.md describes it and proves it.
namespace warpverbs::inline v0_2::device {

/// What a poster knows of its queue, for code that cannot keep a SendQueue from one call to the next. Knows
/// nothing if all of it is zero.
struct PosterState {
  uint32_t reserved = 0, published = 0;  ///< QueueControl::tail, as last seen
  uint32_t completed = 0, next = 0;      ///< CompletionCursor::word()
  uint32_t credit = 0;                   ///< depth of the queue; 0 after an error
  uint32_t known = 0;                    ///< whether the other fields count
};

/// The end of a send queue, as one poster sees it. All indices count slots modulo 2^32.
///
/// `reserved` is the next free index. Every WQE below `published` is written, and its doorbell has been rung
/// or is left to a later poster.
template <arch::Arch A, Sharing S>
class QueueEnd;

/// Keeps the end in a register, and stores it with each doorbell: wherever this poster ends, the next kernel
/// finds it.
template <arch::Arch A>
class QueueEnd<A, Exclusive> {
 public:
  WARPVERBS_DEVICE explicit QueueEnd(QueueControl* control, const PosterState& poster = {})
      : control_(control),
        reserved_(poster.known != 0 ? poster.reserved : static_cast<uint32_t>(A::Load(&control->tail))) {}

  WARPVERBS_DEVICE uint32_t reserved() const { return reserved_; }
  WARPVERBS_DEVICE uint32_t published() const { return reserved_; }
  /// Returns false if a checked build sees that another poster has moved the end.
  WARPVERBS_DEVICE bool IsOnlyPoster() const {
    return !kChecked || static_cast<uint32_t>(A::Load(&control_->tail)) == reserved_;
  }

  WARPVERBS_DEVICE void Reload() {}
  WARPVERBS_DEVICE bool TryReserve(uint32_t slots) {
    reserved_ += slots;
    return true;
  }
  WARPVERBS_DEVICE bool IsNextToPublish(uint32_t) const { return true; }
  WARPVERBS_DEVICE bool ReloadIsNextToPublish(uint32_t) { return true; }
  WARPVERBS_DEVICE bool HasSuccessor(uint32_t) const { return false; }
  WARPVERBS_DEVICE void Publish(uint32_t end) { A::Store(&control_->tail, A::Join(end, end)); }
  WARPVERBS_DEVICE void PublishDeferred(uint32_t) {}
  WARPVERBS_DEVICE void SetReserved(uint32_t end) { reserved_ = end; }

 private:
  QueueControl* control_;
  uint32_t reserved_;
};

/// Keeps a copy of QueueControl::tail in registers. Without other posters the copy is current, so a post
/// costs one atomic operation and no load.
template <arch::Arch A>
class QueueEnd<A, Shared> {
 public:
  WARPVERBS_DEVICE explicit QueueEnd(QueueControl* control, const PosterState& poster = {})
      : word_(&control->tail) {
    reserved_ = poster.reserved;
    published_ = poster.published;
    if (poster.known == 0) Reload();
  }

  WARPVERBS_DEVICE uint32_t reserved() const { return reserved_; }
  WARPVERBS_DEVICE uint32_t published() const { return published_; }
  WARPVERBS_DEVICE bool IsOnlyPoster() const { return true; }

  /// Reloads the word. A CQE read afterwards is at least as new.
  WARPVERBS_DEVICE void Reload() { Set(A::LoadAcquire(word_)); }

  /// Reserves the next `slots` if no other poster has reserved since the last reload (short of exactly 2^32
  /// slots); otherwise reloads reserved().
  ///
  /// A plain add would hand out slots that are not free, and slots cannot be given back. The compare-swap
  /// covers only its own half of the word, so posters that publish meanwhile do not disturb it.
  WARPVERBS_DEVICE bool TryReserve(uint32_t slots) {
    const uint32_t before = A::CompareSwap32(Half(1), reserved_, reserved_ + slots);
    const bool mine = before == reserved_;
    reserved_ = mine ? reserved_ + slots : before;
    return mine;
  }

  /// Returns true if all slots before `base` were published at the last reload. An old reload is as good as a
  /// new one, since nothing is published that is not reserved.
  WARPVERBS_DEVICE bool IsNextToPublish(uint32_t base) const { return published_ == base; }
  WARPVERBS_DEVICE bool ReloadIsNextToPublish(uint32_t base) {
    Set(A::Load(word_));
    return IsNextToPublish(base);
  }

  /// Returns true if another poster had reserved beyond `end` at the last reload.
  WARPVERBS_DEVICE bool HasSuccessor(uint32_t end) const { return reserved_ != end; }

  /// Publishes the slots below `end`, after their WQEs and doorbells.
  ///
  /// Only the poster that is next to publish changes the lower half, so a plain store suffices.
  WARPVERBS_DEVICE void Publish(uint32_t end) {
    A::StoreRelease(Half(0), end);
    published_ = end;
  }

  /// Publishes the slots below `end`, after everything that was stored before the last A::Release().
  WARPVERBS_DEVICE void PublishDeferred(uint32_t end) {
    A::StoreReleased(Half(0), end);
    published_ = end;
  }

  /// Notes that another lane has reserved and published the slots below `end`.
  WARPVERBS_DEVICE void SetReserved(uint32_t end) { reserved_ = published_ = end; }

 private:
  WARPVERBS_DEVICE uint32_t* Half(uint32_t which) const { return reinterpret_cast<uint32_t*>(word_) + which; }
  WARPVERBS_DEVICE void Set(uint64_t word) {
    reserved_ = static_cast<uint32_t>(word >> 32);
    published_ = static_cast<uint32_t>(word);
  }

  uint64_t* word_;
  uint32_t reserved_, published_;
};

template <arch::Arch A>
class QueueEnd<A, RelaxedShared> : public QueueEnd<A, Shared> {
 public:
  using QueueEnd<A, Shared>::QueueEnd;
  WARPVERBS_DEVICE void Publish(uint32_t end) { this->PublishDeferred(end); }
};

/// One thread's state of a send queue: reserves slots, publishes what was written there, and waits for
/// completions.
template <arch::Arch A, Sharing S>
class QueueState {
 public:
  static constexpr uint64_t kPublishLimitNs = 10'000'000'000;  ///< on a RunClock

  /// A processor that releases less far than the queue needs gets no credit: its posts then take the slow
  /// path, and only that one looks for the reason.
  WARPVERBS_DEVICE explicit QueueState(const QueueView& view, const PosterState& poster = {})
      : queue_(view),
        end_(view.control, poster),
        cursor_(end_.reserved()),
        credit_(ReleasesFarEnough<A>(view.flags) ? view.depth : 0) {
    if (poster.known == 0) return;
    cursor_.Set(A::Join(poster.completed, poster.next));
    credit_ = poster.credit;
  }

  WARPVERBS_DEVICE PosterState Poster() const {
    const auto next = static_cast<uint32_t>(cursor_.word() >> 32);
    return {end_.reserved(), end_.published(), cursor_.completed(), next, credit_, 1};
  }

  WARPVERBS_DEVICE const QueueView& view() const { return queue_.view(); }
  WARPVERBS_DEVICE QueueEnd<A, S>& end() { return end_; }
  WARPVERBS_DEVICE const QueueEnd<A, S>& end() const { return end_; }

  /// Returns true if the next slots are known to be free.
  ///
  /// A bound that is too old is behind by more than the depth, and so leaves no credit.
  WARPVERBS_DEVICE bool HasCredit(uint32_t slots) const {
    return end_.reserved() + slots - cursor_.completed() <= credit_;
  }

  /// Returns false once this thread has seen an error: every later post then checks the queue first.
  WARPVERBS_DEVICE bool ok() const { return credit_ != 0; }
  WARPVERBS_DEVICE void MarkFailed() { credit_ = 0; }

  /// Makes `reserved` the end of the queue.
  WARPVERBS_DEVICE void StartAt(uint32_t reserved) {
    end_.SetReserved(reserved);
    cursor_ = CompletionCursor<A>(reserved);
  }

  /// What this thread knows of the completions.
  WARPVERBS_DEVICE const CompletionCursor<A>& cursor() const { return cursor_; }
  WARPVERBS_DEVICE CompletionCursor<A>& cursor() { return cursor_; }

  /// Reserves the next slots, up to end().reserved(), as soon as they are free: kOk, kFull, kTimeout,
  /// kAborted, kError, or kInvalid for a poster that may not post at all.
  ///
  /// A lost race is no reason to give up or to pause: another poster has made progress. But a poster might
  /// lose again and again, so every 1024th loss counts as a round.
  WARPVERBS_DEVICE Code Reserve(uint32_t slots, const WaitLimit& limit) {
    if (!ReleasesFarEnough<A>(view().flags) || !end_.IsOnlyPoster()) return Code::kInvalid;
    constexpr uint32_t kMaxLost = 1024;
    uint32_t lost = 0;
    const Code code = WaitUntil<A>(
        limit, [&](bool) __attribute__((always_inline)) {
          do {
            if (!HasCredit(slots) && !UpdateCredit()) return Code::kError;
            if (!HasCredit(slots)) return Code::kPending;
            if (end_.TryReserve(slots)) return Code::kOk;
          } while (++lost % kMaxLost != 0);
          return Code::kPending;
        });
    return code == Code::kTimeout && limit.deadline_ns == 0 ? Code::kFull : code;
  }

  /// Rings for the WQEs of [base, end) once all earlier ones are published, or leaves that to the poster
  /// behind them: kOk or kError.
  ///
  /// @param doorbell  first 8 bytes of the last WQE
  WARPVERBS_DEVICE Code Publish(uint32_t base, uint32_t end, mlx5::Be64 doorbell, const uint64_t* abort) {
    if (__builtin_expect(!end_.IsNextToPublish(base), false)) {
      A::Release();  // now, while there is time: the poster that is next holds up all behind it
      if (const Code code = AwaitPredecessors(base, abort); code != Code::kOk) return code;
      if (MayDeferDoorbell(base, end)) {
        end_.PublishDeferred(end);
        return Code::kOk;
      }
    }
    queue_.UpdateSendDbrRecord(end);
    queue_.RingDoorbell(doorbell);
    end_.Publish(end);
    return Code::kOk;
  }

  /// Waits until a post is complete: kOk, kTimeout, kAborted, kError, or kInvalid for a post that was
  /// refused.
  WARPVERBS_DEVICE Code Wait(Ticket ticket, const WaitLimit& limit) {
    return WaitUntil<A>(limit, [&](bool check_due) { return Probe(ticket, check_due); });
  }

  /// Returns a ticket that is not done before 2^30 more slots are posted: it is far ahead of the reserved
  /// slots, also for a waiter that saw them long ago.
  WARPVERBS_DEVICE Ticket RefusedTicket() const { return {end_.reserved() + (1u << 30)}; }

  /// Returns the Status of a code that Reserve() or Publish() returned.
  WARPVERBS_DEVICE Status ToStatus(Code code) const {
    if (code == Code::kError) return ErrorStatus(A::Load(&view().control->error));
    if (code != Code::kInvalid) return {.code = code};
    return {.code = code,
            .request_error = ReleasesFarEnough<A>(view().flags) ? RequestError::kSecondPoster
                                                                : RequestError::kReleaseScope};
  }

  /// Returns the Status of a code that Wait() returned.
  WARPVERBS_DEVICE Status WaitStatus(Code code) const {
    if (code == Code::kInvalid) return {.code = code, .request_error = RequestError::kRefusedTicket};
    return ToStatus(code);
  }

 private:
  /// Returns false if the queue has failed.
  WARPVERBS_DEVICE bool UpdateCredit() {
    DrainRing();
    end_.Reload();
    const uint64_t failure = cursor_.Search(view(), end_.reserved(), end_.reserved() - 1);
    if (failure != 0) RecordError(failure);
    if (A::Load(&view().control->error) != 0) {
      MarkFailed();
      return false;
    }
    return true;
  }

  /// Returns true if a successor will ring the doorbell for these slots as well, or defer to its own
  /// successor.
  ///
  /// Each quarter of the queue gets a doorbell of its own, so that the NIC does not run out of work.
  WARPVERBS_DEVICE bool MayDeferDoorbell(uint32_t base, uint32_t end) const {
    const uint32_t quarter = view().depth / 4;
    return end_.HasSuccessor(end) && quarter != 0 && ((base ^ end) & ~(quarter - 1)) == 0;
  }

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

  WARPVERBS_DEVICE void DrainRing() {
    if ((view().flags & kSharedCq) != 0) Drain<A>(*view().control->ring);
  }

  /// Waits until the slots before `base` are published: doorbells leave in order. A poster that gives up
  /// leaves a gap, which ends the queue.
  ///
  /// This is the hand-over between posters, written out since a GPU takes a fifth longer for it by
  /// WaitUntil(): see docs/performance.md.
  WARPVERBS_DEVICE Code AwaitPredecessors(uint32_t base, const uint64_t* abort) {
    if (end_.ReloadIsNextToPublish(base)) return Code::kOk;
    for (Waiter<A, RunClock<A>> waiter({kPublishLimitNs, abort}, true); !end_.ReloadIsNextToPublish(base);) {
      if (waiter.CheckDue() && A::Load(&view().control->error) != 0) return Failed();
      if (waiter.Next() == Code::kPending) continue;
      if (end_.ReloadIsNextToPublish(base)) break;  // it may have been stopped since it looked
      RecordError(kErrorValid | (base & 0xffff));
      return Failed();
    }
    return Code::kOk;
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

  /// Records an error for all posters and for the host, unless they have one that says more: a cause says
  /// more than a flush, and a flush more than a poster that gave up.
  WARPVERBS_DEVICE void RecordError(uint64_t error_word) {
    QueueControl& control = *view().control;
    RaiseTo(&control.error, error_word);
    if (control.host_error != nullptr) RaiseTo(control.host_error, error_word);
  }

  WARPVERBS_DEVICE static void RaiseTo(uint64_t* word, uint64_t error_word) {
    for (uint64_t seen = 0; ErrorRank(seen) < ErrorRank(error_word);) {
      const uint64_t before = A::CompareSwap(word, seen, error_word);
      if (before == seen) return;
      seen = before;
    }
  }

  WARPVERBS_DEVICE Code Failed() {
    MarkFailed();
    return Code::kError;
  }

  WARPVERBS_DEVICE static Code Done() {
    A::AcquireAfterCompletion();
    return Code::kOk;
  }

  WARPVERBS_DEVICE static bool IsBefore(uint32_t a, uint32_t b) { return static_cast<int32_t>(b - a) > 0; }

  RawSendQueue<A> queue_;
  QueueEnd<A, S> end_;
  CompletionCursor<A> cursor_;
  uint32_t credit_;  ///< the depth, or 0 once this thread has seen an error or may not post
};

}  // namespace warpverbs::inline v0_2::device
