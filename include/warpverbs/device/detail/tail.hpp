#pragma once

#include "warpverbs/device/cooperation.hpp"
#include "warpverbs/device/queue_view.hpp"

namespace warpverbs::inline v0_2::device {

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
  WARPVERBS_DEVICE void PassOn(uint32_t) {}
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

  /// Takes the next `slots` if nobody has taken them since the last look (short of exactly 2^32 posts); else
  /// that was a look at next().
  ///
  /// A plain add would hand out slots that are not free, and there is no giving them back. Turns that pass
  /// meanwhile do not disturb it, since it compares its own half of the word only.
  WARPVERBS_DEVICE bool Claim(uint32_t slots) {
    const uint32_t before = A::CompareSwap32(Half(1), next_, next_ + slots);
    const bool mine = before == next_;
    next_ = mine ? next_ + slots : before;
    return mine;
  }

  /// Whether all before `base` had been handed over when last seen: a turn never passes what is reserved, so
  /// an old look tells as well as a new one.
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
    A::StoreRelease(Half(0), end);
    turn_ = end;
  }

  /// The same, after what was stored before the last A::Release().
  WARPVERBS_DEVICE void PassOn(uint32_t end) {
    A::StoreReleased(Half(0), end);
    turn_ = end;
  }

  /// Another lane has reserved and handed over up to `end`.
  WARPVERBS_DEVICE void Follow(uint32_t end) { next_ = turn_ = end; }

  WARPVERBS_DEVICE void Save() const {}  // it is never anywhere else

 private:
  WARPVERBS_DEVICE uint32_t* Half(uint32_t which) const { return reinterpret_cast<uint32_t*>(word_) + which; }
  WARPVERBS_DEVICE void See(uint64_t word) {
    next_ = static_cast<uint32_t>(word >> 32);
    turn_ = static_cast<uint32_t>(word);
  }

  uint64_t* word_;
  uint32_t next_, turn_;
};

template <arch::Arch A>
class Tail<A, RelaxedShared> : public Tail<A, Shared> {
 public:
  using Tail<A, Shared>::Tail;
  WARPVERBS_DEVICE void HandOver(uint32_t end) { this->PassOn(end); }
};

}  // namespace warpverbs::inline v0_2::device
