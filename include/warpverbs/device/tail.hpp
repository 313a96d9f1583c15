#pragma once

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/device/queue_view.hpp"

/// Who may post to a queue, and how they share its end.
namespace warpverbs::device {

/// One thread posts: the end of the queue lives in its register.
struct Exclusive {};

/// Any threads post, each with its own SendQueue.
struct Shared {};

/// The end of a send queue. next() is the first free index; below rung() every WQE is written and its
/// doorbell rung. Both are what was seen last, and count modulo 2^32.
template <arch::Arch A, class Sharing>
class Tail;

template <arch::Arch A>
class Tail<A, Exclusive> {
 public:
  WARPVERBS_DEVICE explicit Tail(QueueControl* control)
      : control_(control), next_(static_cast<uint32_t>(A::Load(&control->tail))) {}

  WARPVERBS_DEVICE uint32_t next() const { return next_; }
  WARPVERBS_DEVICE uint32_t rung() const { return next_; }

  WARPVERBS_DEVICE bool Look() { return false; }
  WARPVERBS_DEVICE bool Claim() { return true; }
  WARPVERBS_DEVICE bool IsTurn(uint32_t) const { return true; }
  WARPVERBS_DEVICE bool LookForTurn(uint32_t) { return true; }
  WARPVERBS_DEVICE void HandOver(uint32_t index) { next_ = index + 1; }
  WARPVERBS_DEVICE void Save() const { A::Store(&control_->tail, uint64_t{next_} << 32 | next_); }

 private:
  QueueControl* control_;
  uint32_t next_;
};

/// Keeps the last seen QueueControl::tail in a register. While nobody else posts that is the true one, so
/// that a post costs one atomic operation and no load.
template <arch::Arch A>
class Tail<A, Shared> {
 public:
  WARPVERBS_DEVICE explicit Tail(QueueControl* control)
      : word_(&control->tail), seen_(A::LoadAcquire(word_)) {}

  WARPVERBS_DEVICE uint32_t next() const { return static_cast<uint32_t>(seen_ >> 32); }
  WARPVERBS_DEVICE uint32_t rung() const { return static_cast<uint32_t>(seen_); }

  /// Looks again; true, since there may be news. A CQE that is read later is no older.
  WARPVERBS_DEVICE bool Look() {
    seen_ = A::LoadAcquire(word_);
    return true;
  }

  /// Takes next() if nothing has changed since the last look (short of exactly 2^32 posts); else that was a
  /// look.
  ///
  /// A plain add would hand out indices for which there is no room, and there is no giving them back. The
  /// answer tells the turn too, so an undisturbed poster need not look for it.
  WARPVERBS_DEVICE bool Claim() {
    const uint64_t before = A::CompareSwap(word_, seen_, seen_ + kOneReserved);
    const bool claimed = before == seen_;
    seen_ = before;
    return claimed;
  }

  /// Whether all before `index` had been rung when last seen.
  WARPVERBS_DEVICE bool IsTurn(uint32_t index) const { return rung() == index; }
  WARPVERBS_DEVICE bool LookForTurn(uint32_t index) {
    seen_ = A::Load(word_);
    return IsTurn(index);
  }

  /// Passes the turn to who reserved `index + 1`.
  ///
  /// Where the turn wraps to 0 the difference is 1 - 2^32, which takes the carry out of the upper half again.
  ///
  /// @pre  it is the turn of `index`, so that nobody else changes the lower half
  WARPVERBS_DEVICE void HandOver(uint32_t index) {
    const uint32_t end = index + 1;
    A::AddRelease(word_, uint64_t{end} - uint64_t{index});
    seen_ = uint64_t{end} << 32 | end;
  }

  WARPVERBS_DEVICE void Save() const {}  // it is never anywhere else

 private:
  static constexpr uint64_t kOneReserved = uint64_t{1} << 32;

  uint64_t* word_;
  uint64_t seen_;
};

}  // namespace warpverbs::device
