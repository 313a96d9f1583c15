#pragma once

#include "warpverbs/device/cooperation.hpp"
#include "warpverbs/device/detail/region_check.hpp"

/// The end of a send queue: the words that its posters move.
namespace warpverbs::inline v0_2::device {

/// What a poster knows of its queue, for code that cannot keep a SendQueue from one call to the next. Knows
/// nothing if all of it is zero.
struct PosterState {
  uint32_t reserved = 0, published = 0;  ///< QueueControl::tail as last seen; or `ready`
  uint32_t completed = 0, next = 0;      ///< CompletionCursor::word()
  uint32_t credit = 0;                   ///< depth of the queue; 0 after an error
  uint32_t known = 0;                    ///< whether the other fields count
  uint32_t limit = 0;                    ///< limit of QueueControl::tail, on a contended queue
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

  WARPVERBS_DEVICE PosterState Poster() const { return {.reserved = reserved_, .published = reserved_}; }

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
  WARPVERBS_DEVICE void Publish(uint32_t end) { A::Store(&control_->tail, A::Join(end, end)); }
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

  WARPVERBS_DEVICE PosterState Poster() const { return {.reserved = reserved_, .published = published_}; }

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
  WARPVERBS_DEVICE bool TryReserve(uint32_t slots) { return EndReserve(slots, BeginReserve(slots)); }

  /// Sends the compare-swap of TryReserve(). It takes some 500 cycles on an H100; what is computed before
  /// EndReserve() overlaps it.
  ///
  /// @return  the end that memory had, for EndReserve()
  WARPVERBS_DEVICE uint32_t BeginReserve(uint32_t slots) const {
    return A::CompareSwap32(Half(1), reserved_, reserved_ + slots);
  }
  /// Returns whether BeginReserve() has reserved the slots. Updates reserved().
  WARPVERBS_DEVICE bool EndReserve(uint32_t slots, uint32_t before) {
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

}  // namespace warpverbs::inline v0_2::device
