#pragma once

#include "warpverbs/device/detail/completion.hpp"

namespace warpverbs::inline v0_2::device {

/// The CQEs of a send queue's own CQ, which nobody gives back.
///
/// A collapsed CQ has one, the newest. On a ring, the NIC writes CQE n to slot n modulo the depth, with the
/// next bit of n as its owner bit. The ring is at least as deep as the queue, so a CQE stays until its WQE's
/// slots are free. Numbers count modulo twice the depth.
template <arch::Arch A>
struct Cqes {
  const uint8_t* cqe;
  uint32_t depth;

  WARPVERBS_DEVICE arch::CqeTail Load(uint32_t number) const {
    return A::LoadCqeTail(cqe + (number & (depth - 1)) * sizeof(mlx5::Cqe64) + mlx5::kCqeTailOffset);
  }
  WARPVERBS_DEVICE bool Owner(uint32_t number) const { return (number & depth) != 0; }

  /// Returns whether what was loaded from a number's slot is that CQE, or the one an even number of rounds
  /// later.
  WARPVERBS_DEVICE bool IsWritten(uint32_t number, const arch::CqeTail& tail) const {
    return Opcode(tail) != mlx5::CqeOpcode::kInvalid && OwnerBit(tail) == Owner(number);
  }
  WARPVERBS_DEVICE bool LoadIfWritten(uint32_t number, arch::CqeTail& tail) const {
    const arch::CqeTail seen = Load(number);
    const bool written = IsWritten(number, seen);
    if (written) tail = seen;
    return written;
  }

  /// Returns the number of the newest CQE of [first, end), of which the first is written.
  ///
  /// @param[in,out] tail  of the first; of the result
  WARPVERBS_DEVICE uint32_t NewestBefore(uint32_t end, uint32_t first, arch::CqeTail& tail) const {
    while (end - first > 1) {
      const uint32_t middle = first + (end - first) / 2;
      if (LoadIfWritten(middle, tail)) {
        first = middle;
      } else {
        end = middle;
      }
    }
    return first;
  }

  /// Returns the number of the first of the consecutive errors that end at a CQE: all CQEs after the first
  /// error are errors, most often flushes.
  ///
  /// @param[in,out] tail  of that CQE; of the result
  WARPVERBS_DEVICE uint32_t FirstError(uint32_t number, arch::CqeTail& tail) const {
    A::AcquireAfterCompletion();  // what is loaded from here on is at least as new as this CQE
    for (uint32_t left = depth - 1; left != 0; --left) {
      arch::CqeTail before;
      if (!LoadIfWritten(number - 1, before) || !IsError(before)) break;
      --number;
      tail = before;
    }
    return number;
  }

  /// Finds a CQE that is at least as new as all that were written before the call or, if the queue pair has
  /// failed, the first error that the CQ keeps. Returns false if the NIC came round meanwhile.
  ///
  /// The search compares owner bits with that of slot 0, so it is void once the NIC has written slot 0 again.
  /// That shows in slot 0, unless exactly 2 * depth completions cover a multiple of 2^16 slots.
  ///
  /// @param number  its number; -1 if none was written: `tail` then has the counter of the WQE before index 0
  WARPVERBS_DEVICE bool FindNewest(uint32_t& number, arch::CqeTail& tail) const {
    const arch::CqeTail first = tail = Load(0);
    number = ~0u;
    if (Opcode(first) != mlx5::CqeOpcode::kInvalid) {
      const uint32_t round = OwnerBit(first) ? depth : 0;
      number = NewestBefore(round + depth, round, tail);
      if (IsError(tail)) number = FirstError(number, tail);
    }
    if (depth == 1) return true;
    A::AcquireAfterCompletion();
    const arch::CqeTail again = Load(0);
    return again.low == first.low && again.high == first.high;
  }
};

/// What one thread knows of the completions of a send queue.
///
/// On a ring, `next_` is the number of a CQE: all before it are written, and they tell that everything below
/// slot `completed_` is complete. A WQE of slot s then completes with CQE `next_ + (s - completed_)` if every
/// slot before it has a CQE of its own, or else with an earlier one. Slots count modulo 2^32.
template <arch::Arch A>
class CompletionCursor {
 public:
  /// Starts without knowledge.
  ///
  /// @param reserved  end of the reserved slots
  WARPVERBS_DEVICE explicit CompletionCursor(uint32_t reserved) { Forget(reserved); }

  /// Returns the index below which everything is complete, as far as this thread knows.
  WARPVERBS_DEVICE uint32_t completed() const { return completed_; }

  /// Both members as a word, for other threads.
  WARPVERBS_DEVICE uint64_t word() const { return A::Join(completed_, next_); }
  WARPVERBS_DEVICE void Set(uint64_t word) {
    completed_ = static_cast<uint32_t>(word);
    next_ = static_cast<uint32_t>(word >> 32);
  }

  /// What a Peek() found.
  enum class Found : uint8_t {
    kDone,     ///< the slot is complete
    kNothing,  ///< nothing has completed since this thread looked
    kUnclear,  ///< only Search() tells
  };

  /// Looks at the CQE that most often is a slot's. Loads one CQE, or two for a slot behind others that are
  /// not complete.
  ///
  /// @param reserved  end of the reserved slots, as last loaded
  WARPVERBS_DEVICE Found Peek(const QueueView& view, uint32_t reserved, uint32_t slot) {
    const Cqes<A> cqes{view.cqe, view.cq_depth};
    const uint32_t ahead = slot - completed_, number = next_ + ahead;
    arch::CqeTail tail = cqes.Load(number);
    // One comparison tells that the CQE is written, of this slot, and no error. What it is compared with is
    // computed while it is loaded.
    const uint32_t compared = view.cq_depth == 1 ? kOpcode | kCounter : kOpcode | kCounter | kOwner;
    const uint32_t owner = cqes.Owner(number) ? kOwner : 0;
    const uint32_t wanted = (owner | (slot & 0xff) << 8 | (slot >> 8 & 0xff)) & compared;
    const bool matches = (static_cast<uint32_t>(tail.high >> 32) & compared) == wanted;
    if (__builtin_expect(matches & (ahead < view.depth), true)) {
      Take(number, slot + 1);
      if (view.cq_depth != 1) Leave(*view.control);
      return Found::kDone;
    }
    if (view.cq_depth == 1) {
      if (IsError(tail)) return Found::kUnclear;
      TakeNewest(tail, reserved, view.depth);
      return static_cast<int32_t>(completed_ - slot) > 0 ? Found::kDone : Found::kNothing;
    }
    if (ahead >= view.cq_depth || cqes.IsWritten(number, tail)) return Found::kUnclear;
    return ahead == 0 || !cqes.LoadIfWritten(next_, tail) ? Found::kNothing : Found::kUnclear;
  }

  /// Returns whether a Search() may find more than a Peek() that found nothing.
  ///
  /// @param reserved  loaded after that Peek()
  WARPVERBS_DEVICE bool MayFindMore(const QueueView& view, uint32_t reserved) const {
    return view.cq_depth == 1 || KnowsTooLittle(reserved, view.depth);
  }

  /// Looks for the completion of a slot wherever it may be, and updates completed(). Returns 0 or, if the
  /// queue pair has failed, the word of the first error that the CQ keeps.
  ///
  /// @param reserved  end of the reserved slots, as last loaded
  WARPVERBS_DEVICE uint64_t Search(const QueueView& view, uint32_t reserved, uint32_t slot) {
    const Cqes<A> cqes{view.cqe, view.cq_depth};
    arch::CqeTail tail;
    if (view.cq_depth == 1) {
      tail = cqes.Load(0);
      if (IsError(tail)) return ErrorWord(tail);
      TakeNewest(tail, reserved, view.depth);
      return 0;
    }
    if (KnowsTooLittle(reserved, view.depth)) Restart(cqes, view, reserved);
    const uint32_t ahead = slot - completed_;
    if (ahead >= view.cq_depth) return 0;  // the slot is complete, or this thread still knows too little
    uint32_t number = next_ + ahead;
    if (!cqes.LoadIfWritten(number, tail)) {
      if (ahead == 0 || !cqes.LoadIfWritten(next_, tail)) return 0;
      number = cqes.NewestBefore(number, next_, tail);
    }
    if (IsError(tail)) {
      TakeError(cqes.FirstError(number, tail), tail);
      return ErrorWord(tail);
    }
    Take(number, CompletedBelow(tail, completed_));
    Leave(*view.control);
    return 0;
  }

 private:
  /// The upper half of a CQE's last word. The opcode of a success is 0.
  static constexpr uint32_t kOpcode = 0xf0u << 24, kOwner = 1u << 24, kCounter = 0xffff;
  static_assert(static_cast<uint32_t>(mlx5::CqeOpcode::kRequester) == 0);

  /// Nobody posts more than a queue's depth beyond what is complete.
  WARPVERBS_DEVICE bool KnowsTooLittle(uint32_t reserved, uint32_t depth) const {
    return static_cast<int32_t>(reserved - completed_) > static_cast<int32_t>(depth);
  }

  /// Puts completed() further behind than any queue is deep.
  WARPVERBS_DEVICE void Forget(uint32_t reserved) { completed_ = reserved - (1u << 29); }

  /// Takes a collapsed CQ's completion. It may cover more than this thread has seen reserved.
  WARPVERBS_DEVICE void TakeNewest(const arch::CqeTail& tail, uint32_t reserved, uint32_t depth) {
    completed_ = CompletedBelow(tail, reserved - depth);
    if (static_cast<int32_t>(completed_ - reserved) > 0) completed_ = reserved;
  }

  /// Takes a CQE and all before it.
  WARPVERBS_DEVICE void Take(uint32_t number, uint32_t completed) {
    next_ = number + 1;
    completed_ = completed;
  }

  /// Takes all before the first error. Only a cause tells that the posts before it are complete: a flush may
  /// follow one that was flushed without a CQE.
  WARPVERBS_DEVICE void TakeError(uint32_t number, const arch::CqeTail& tail) {
    next_ = number;
    if (ErrorRank(ErrorWord(tail)) == kCause)
      completed_ += static_cast<uint16_t>(WqeCounter(tail) - completed_);
  }

  /// Leaves the cursor for other threads.
  WARPVERBS_DEVICE void Leave(QueueControl& control) const { A::Store(&control.cursor, word()); }

  /// Starts from what another thread has left or, if that is too old, from the ring alone. What another
  /// thread left is a hint: it counts if its last CQE is still on the ring.
  WARPVERBS_DEVICE void Restart(const Cqes<A>& cqes, const QueueView& view, uint32_t reserved) {
    Set(A::Load(&view.control->cursor));
    arch::CqeTail tail;
    const bool fits = cqes.LoadIfWritten(next_ - 1, tail) && !IsError(tail) &&
                      static_cast<uint16_t>(WqeCounter(tail) + 1) == static_cast<uint16_t>(completed_);
    // It may be from before or after the load of `reserved`.
    if (fits && reserved - completed_ + view.depth <= 2 * view.depth) return;
    uint32_t number;
    const bool stayed = cqes.FindNewest(number, tail);
    // Where FindNewest() cannot tell that the NIC came round twice, the end has moved by some 2^16 slots.
    const uint32_t end = LoadEnd(view);
    if (!stayed || static_cast<int32_t>(end - reserved) > 0x4000) {
      Forget(reserved);
      return;
    }
    completed_ = reserved - view.depth;
    if (IsError(tail)) {
      TakeError(number, tail);
    } else {
      Take(number, CompletedBelow(tail, completed_));
      Leave(*view.control);
    }
  }

  /// Loads the end of the reserved slots. Past the limit of a contended queue, reservations are void.
  WARPVERBS_DEVICE static uint32_t LoadEnd(const QueueView& view) {
    const uint64_t tail = A::Load(&view.control->tail);
    const auto end = static_cast<uint32_t>(tail >> 32), limit = static_cast<uint32_t>(tail);
    return (view.flags & kContended) != 0 && static_cast<int32_t>(end - limit) > 0 ? limit : end;
  }

  uint32_t completed_;
  uint32_t next_ = 0;
};

}  // namespace warpverbs::inline v0_2::device
