#pragma once

#include "warpverbs/device/cooperation.hpp"
#include "warpverbs/device/queue_view.hpp"

namespace warpverbs::device {

/// The end of a send queue, which its posters share: docs/shared-queue.md has the proofs. next() is the first
/// free index as seen last, modulo 2^32.
template <arch::Arch A, class Sharing>
class Tail;

template <arch::Arch A>
class Tail<A, Exclusive> {
 public:
  WARPVERBS_DEVICE explicit Tail(QueueControl* control)
      : control_(control), next_(static_cast<uint32_t>(A::Load(&control->tail))) {}

  WARPVERBS_DEVICE uint32_t next() const { return next_; }
  WARPVERBS_DEVICE uint32_t turn() const { return next_; }

  WARPVERBS_DEVICE void Look() {}
  WARPVERBS_DEVICE bool Claim(uint32_t slots) {
    next_ += slots;
    return true;
  }
  WARPVERBS_DEVICE bool IsTurn(uint32_t) const { return true; }
  WARPVERBS_DEVICE bool LookForTurn(uint32_t) { return true; }
  WARPVERBS_DEVICE bool HasSuccessor(uint32_t) const { return false; }
  WARPVERBS_DEVICE void HandOver(uint32_t) {}
  WARPVERBS_DEVICE void Follow(uint32_t end) { next_ = end; }
  WARPVERBS_DEVICE void Save() const { A::Store(&control_->tail, A::Join(next_, next_)); }

 private:
  QueueControl* control_;
  uint32_t next_;
};

/// Keeps the last seen QueueControl::tail in registers. While nobody else posts that is the true one, so that
/// a post costs one atomic operation and no load.
template <arch::Arch A>
class Tail<A, Shared> {
 public:
  WARPVERBS_DEVICE explicit Tail(QueueControl* control) : word_(&control->tail) { Look(); }

  WARPVERBS_DEVICE uint32_t next() const { return next_; }
  /// Below it every WQE is written, and rung or about to be.
  WARPVERBS_DEVICE uint32_t turn() const { return turn_; }

  /// Looks again. A CQE that is read later is no older.
  WARPVERBS_DEVICE void Look() { See(A::LoadAcquire(word_)); }

  /// Takes the next `slots` if nothing has changed since the last look (short of exactly 2^32 posts); else
  /// that was a look.
  ///
  /// A plain add would hand out slots that are not free, and there is no giving them back. The answer tells
  /// the turn too, so an undisturbed poster need not look for it.
  WARPVERBS_DEVICE bool Claim(uint32_t slots) {
    const uint64_t expected = Word(next_);
    const uint64_t before = A::CompareSwap(word_, expected, Word(next_ + slots));
    if (before == expected) {
      next_ += slots;
      return true;
    }
    See(before);
    return false;
  }

  /// Whether all before `base` had been handed over when last seen.
  WARPVERBS_DEVICE bool IsTurn(uint32_t base) const { return turn_ == base; }
  WARPVERBS_DEVICE bool LookForTurn(uint32_t base) {
    See(A::Load(word_));
    return IsTurn(base);
  }

  /// Whether somebody had reserved beyond `end` when last seen.
  WARPVERBS_DEVICE bool HasSuccessor(uint32_t end) const { return next_ != end; }

  /// Passes the turn to who reserved from `end` on, after the WQEs and doorbells before it.
  ///
  /// Only the holder of the turn changes the lower half, so it needs no atomic operation.
  WARPVERBS_DEVICE void HandOver(uint32_t end) {
    A::StoreRelease(reinterpret_cast<uint32_t*>(word_), end);
    turn_ = end;
  }

  /// Another lane has reserved and handed over up to `end`.
  WARPVERBS_DEVICE void Follow(uint32_t end) { next_ = turn_ = end; }

  WARPVERBS_DEVICE void Save() const {}  // it is never anywhere else

 private:
  WARPVERBS_DEVICE uint64_t Word(uint32_t next) const { return A::Join(turn_, next); }
  WARPVERBS_DEVICE void See(uint64_t word) {
    next_ = static_cast<uint32_t>(word >> 32);
    turn_ = static_cast<uint32_t>(word);
  }

  uint64_t* word_;
  uint32_t next_, turn_;
};

}  // namespace warpverbs::device
