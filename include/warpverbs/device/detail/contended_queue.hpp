#pragma once

#include "warpverbs/device/detail/queue_state.hpp"

/// The protocol of a contended send queue. docs/contended-queue.md describes it and proves it.
namespace warpverbs::inline v0_2::device {

/// The end of a contended queue, as one poster sees it. All indices count slots modulo 2^32.
///
/// Slots are reserved by an add, below a limit up to which they are free. The one poster whose slots cross
/// the limit holds the gate: it moves the limit, and until then the adds of all others are void.
template <arch::Arch A>
class QueueEnd<A, Contended> {
 public:
  WARPVERBS_DEVICE explicit QueueEnd(QueueControl* control, const PosterState& poster = {})
      : control_(control),
        reserved_(poster.reserved),
        limit_(poster.limit),
        ready_(poster.published),
        zero_(A::Keep(A::OpaqueZero())) {
    if (poster.known != 0) return;
    const uint32_t ready = LoadReady();
    Reload();
    ready_ = ready;
    if (ready != reserved_) ForgetReady();
  }

  WARPVERBS_DEVICE PosterState Poster() const {
    return {.reserved = reserved_, .published = ready_, .limit = limit_};
  }

  /// Returns the end of the reserved slots or, while the gate is closed, the limit, as last loaded.
  WARPVERBS_DEVICE uint32_t reserved() const { return reserved_; }
  WARPVERBS_DEVICE uint32_t limit() const { return limit_; }

  /// Returns true if the next slots were below the limit at the last look.
  WARPVERBS_DEVICE bool HasRoom(uint32_t slots) const { return IsAtMost(reserved_ + slots, limit_); }

  /// Reloads the end. Returns false while the gate is closed. A CQE read afterwards is at least as new.
  WARPVERBS_DEVICE bool Reload() {
    Split(A::LoadAcquire(&control_->tail));
    return DropVoidAdds();
  }

  enum class Reserved : uint8_t {
    kDone,
    kVoid,  ///< the gate is closed: nothing is reserved
    kGate,  ///< nothing is reserved, and the caller holds the gate: it must call OpenGate()
  };

  /// Reserves the next slots, up to reserved(), or tells why not. reserved() is then where they would begin.
  WARPVERBS_DEVICE Reserved TryReserve(uint32_t slots) {
    Split(A::Add(&control_->tail, A::Join(zero_, slots)));
    if (__builtin_expect(HasRoom(slots), true)) {  // so the gate is open, too: one branch
      reserved_ += slots;
      return Reserved::kDone;
    }
    return DropVoidAdds() ? Reserved::kGate : Reserved::kVoid;
  }

  /// Makes later loads at least as new as the limit that TryReserve() saw.
  WARPVERBS_DEVICE void AcquireLimit() const { static_cast<void>(A::LoadAcquire(&control_->tail)); }

  /// Drops all void adds, reserves `slots`, and moves the limit up to `room` past reserved().
  ///
  /// @pre  TryReserve() has returned kGate; `room` slots are free, and `slots` are at most `room`
  WARPVERBS_DEVICE void OpenGate(uint32_t slots, uint32_t room) {
    if (!IsAtMost(reserved_ + room, limit_)) limit_ = reserved_ + room;
    reserved_ += slots;
    A::StoreRelease(&control_->tail, A::Join(limit_, reserved_));
  }

  /// Returns true if all slots before `base` were ready at the last look. An old look is as good as a new
  /// one, since nothing is ready that is not reserved.
  WARPVERBS_DEVICE bool IsNextToRing(uint32_t base) const { return ready_ == base; }
  WARPVERBS_DEVICE void SetNextToRing(uint32_t base) { ready_ = base; }
  /// Forgets which slots are ready: makes that no post's base for long.
  WARPVERBS_DEVICE void ForgetReady() { ready_ = reserved_ + (1u << 31); }

  /// Loads the number of ready slots. A later load of the tail is at least as new.
  WARPVERBS_DEVICE uint32_t LoadReady() const {
    return static_cast<uint32_t>(A::LoadAcquire(&control_->ready));
  }

  /// Loads whether another poster has added beyond `end`.
  WARPVERBS_DEVICE bool LoadHasSuccessor(uint32_t end) const {
    return static_cast<uint32_t>(A::Load(&control_->tail) >> 32) != end;
  }

  /// Counts slots as ready, after everything that was stored before the last A::Release().
  WARPVERBS_DEVICE void AddReady(uint32_t slots) { A::AddReleased(&control_->ready, slots + zero_); }

  /// Notes that another lane has reserved the slots below `end`.
  WARPVERBS_DEVICE void SetReserved(uint32_t end) {
    reserved_ = end;
    ForgetReady();
  }

 private:
  WARPVERBS_DEVICE static bool IsAtMost(uint32_t a, uint32_t b) { return static_cast<int32_t>(b - a) >= 0; }
  WARPVERBS_DEVICE void Split(uint64_t tail) {
    limit_ = static_cast<uint32_t>(tail);
    reserved_ = static_cast<uint32_t>(tail >> 32);
  }
  /// Sets reserved() back to the limit if adds have passed it. Returns false then: the gate is closed.
  WARPVERBS_DEVICE bool DropVoidAdds() {
    const bool open = IsAtMost(reserved_, limit_);
    if (!open) reserved_ = limit_;
    return open;
  }

  QueueControl* control_;
  uint32_t reserved_, limit_;
  uint32_t ready_;  ///< all slots before it are ready: this poster has seen or rung them
  /// 0, which keeps the assembler from combining the adds of a warp's lanes: even for a lone poster it would
  /// vote, shuffle, and ask for the lane's number. Keep() makes it read the zero once, not for each add. No
  /// test sees the difference, which is below PTX; `device_post_benchmark --contention` does.
  uint32_t zero_;
};

/// One thread's state of a contended send queue.
template <arch::Arch A, Observing O>
class QueueState<A, Contended, O> : public QueueCore<A, Contended, O> {
  using Core = QueueCore<A, Contended, O>;
  using Core::cursor_, Core::end_, Core::queue_;
  using Reserved = typename QueueEnd<A, Contended>::Reserved;

 public:
  using Core::observer, Core::view;

  WARPVERBS_DEVICE explicit QueueState(const QueueView& queue, const PosterState& poster = {})
      : Core(queue, poster) {}

  /// Reserves the next slots, up to end().reserved(), if they are free. Waits for no completion, but may wait
  /// until earlier posters have written their WQEs.
  ///
  /// A thread that has seen the gate closed looks before it adds again: so the void adds stay far from 2^31.
  WARPVERBS_DEVICE bool TryReserve(uint32_t slots, const uint64_t* abort) {
    const bool fits = slots <= this->credit_;
    if (!__builtin_expect(fits & end_.HasRoom(1), true)) {  // one branch
      if (!fits || !end_.Reload()) return false;
    }
    const Reserved reserved = end_.TryReserve(slots);
    if (__builtin_expect(reserved == Reserved::kDone, true)) return true;
    return reserved == Reserved::kGate && MoveLimit(slots, abort) == Code::kOk;
  }

  /// Reserves the next slots, up to end().reserved(), as soon as they are free: kOk, kFull, kTimeout,
  /// kAborted, kError, or kInvalid for a poster that may not post at all. Every 16th void add counts as a
  /// round of the wait, since each means that other posters have made progress.
  WARPVERBS_DEVICE Code Reserve(uint32_t slots, const WaitLimit& limit) {
    if (MisuseOf<A, Contended>(view().flags) != RequestError::kNone) return Code::kInvalid;
    constexpr uint32_t kMaxLost = 16;
    const Code code = WaitUntil<A>(limit, [&](bool) {
      for (uint32_t lost = 0; lost < kMaxLost; ++lost) {
        // Looks before it adds: an add that cannot succeed makes others wait.
        if (!this->ok() || !end_.HasRoom(slots)) {
          if (const Code look = LookForRoom(slots, limit); look != Code::kOk) return look;
        }
        const Reserved reserved = end_.TryReserve(slots);
        if (reserved == Reserved::kDone) return Code::kOk;
        if (reserved == Reserved::kGate) return MoveLimit(slots, limit.abort);
      }
      return Code::kPending;
    });
    observer().Resume(Stall::kFull);
    return code == Code::kTimeout && limit.deadline_ns == 0 ? Code::kFull : code;
  }

  /// Counts the WQEs of [base, end) as ready, and leaves their doorbell to the poster behind them. Without
  /// one, waits until all earlier ones are ready, and rings: kOk or kError.
  ///
  /// @param doorbell  first 8 bytes of the last WQE
  WARPVERBS_DEVICE Code Publish(uint32_t base, uint32_t end, mlx5::Be64 doorbell, const uint64_t* abort) {
    if (!end_.IsNextToRing(base)) {
      bool followed = end_.LoadHasSuccessor(end);
      A::Release();
      if (__builtin_expect(followed, true)) return LeaveDoorbell(base, end);
      // In this order: if nothing is reserved behind the caller's slots, all that was ready then is before.
      const Code code = this->AwaitPredecessors(base, abort, [&] {
        const uint32_t ready = end_.LoadReady();
        followed = end_.LoadHasSuccessor(end);
        return followed || ready == base;
      });
      if (code != Code::kOk) return code;
      if (followed) return LeaveDoorbell(base, end);
    }
    queue_.UpdateSendDbrRecord(end);
    queue_.RingDoorbell(doorbell);
    A::Release();  // the next poster to ring sees these slots as ready after this doorbell
    end_.AddReady(end - base);
    end_.SetNextToRing(end);
    observer().Published(base, end, true);
    return Code::kOk;
  }

  /// Finds the last slot that any thread has reserved before the call. Waits for the gate, within `limit`.
  WARPVERBS_DEVICE Code LastTicket(Ticket& last, const WaitLimit& limit) {
    if (!IsMadeFor<Contended>(view().flags)) return Code::kInvalid;
    const Code code = WaitUntil<A>(limit, [&](bool) {
      if (end_.Reload()) return Code::kOk;
      return A::Load(&view().control->error) != 0 ? this->Failed() : Code::kPending;
    });
    last = {end_.reserved() - 1};
    return code;
  }

 private:
  /// Counts the slots of a post as ready, and leaves their doorbell to the poster behind them.
  WARPVERBS_DEVICE Code LeaveDoorbell(uint32_t base, uint32_t end) {
    end_.AddReady(end - base);
    end_.ForgetReady();
    observer().Published(base, end, false);
    return Code::kOk;
  }

  /// Waits for the gate, and looks whether the next slots are free: kOk, kPending, kTimeout, kAborted or
  /// kError.
  WARPVERBS_DEVICE Code LookForRoom(uint32_t slots, const WaitLimit& limit) {
    if (!end_.Reload()) {
      const Code code = AwaitGate(limit);
      observer().Resume(Stall::kTurn);
      if (code != Code::kOk) return code;
    }
    observer().Polled();
    this->DrainRing();
    if (!this->UpdateCompleted()) return Code::kError;
    if (end_.HasRoom(slots) || end_.reserved() + slots - cursor_.completed() <= view().depth)
      return Code::kOk;
    observer().Pending(Stall::kFull);
    return Code::kPending;
  }

  /// Waits until the gate is open: kOk, kTimeout, kAborted or kError.
  ///
  /// A caller without a deadline waits, too: it wants slots that are free now, and the gate opens within
  /// microseconds, but for open batches. If the same gate is closed for 10 s, its holder has died, which ends
  /// the queue.
  WARPVERBS_DEVICE Code AwaitGate(const WaitLimit& limit) {
    const WaitLimit longest{Core::kPublishLimitNs, limit.abort};
    uint32_t closed_at = end_.limit();
    for (Waiter<A, RunClock<A>> waiter(longest, true); !end_.Reload();) {
      observer().Pending(Stall::kTurn);
      if (waiter.CheckDue()) {
        if (A::Load(&view().control->error) != 0) return this->Failed();
        if (limit.deadline_ns != 0 && A::NowNs() >= limit.deadline_ns) return Code::kTimeout;
      }
      const Code code = waiter.Next();
      if (code == Code::kPending) continue;
      if (end_.Reload()) break;  // it may have been stopped since it looked
      if (code == Code::kAborted) return code;
      if (end_.limit() == closed_at) return this->GiveUp(end_.limit());
      closed_at = end_.limit();
      waiter = Waiter<A, RunClock<A>>(longest, true);
    }
    return Code::kOk;
  }

  /// Moves the limit once all slots below are ready, reserves slots if they are free, and opens the gate:
  /// kOk, kPending or kError. Rings, if the caller's own doorbell will not.
  ///
  /// Besides the holder's own slots, at most a quarter of the queue passes until the next move, so that the
  /// NIC does not run out of work.
  ///
  /// @pre  the caller holds the gate: until it opens, end().reserved() stays the end of the reserved slots
  WARPVERBS_DEVICE Code MoveLimit(uint32_t slots, const uint64_t* abort) {
    const uint32_t base = end_.reserved(), depth = view().depth;
    const bool rung = end_.IsNextToRing(base);
    if (!rung) {
      const Code code = this->AwaitPredecessors(base, abort, [&] { return end_.LoadReady() == base; });
      observer().Resume(Stall::kTurn);
      if (code != Code::kOk) return code;
      end_.SetNextToRing(base);
    }
    end_.AcquireLimit();
    observer().Polled();
    this->DrainRing();
    if (!this->UpdateCompleted()) return Code::kError;
    const uint32_t busy = base - cursor_.completed(), free = busy <= depth ? depth - busy : 0;
    const bool fits = slots <= free;
    if (!fits && !rung) {
      const uint8_t* const last = view().sq + uint64_t{(base - 1) & (depth - 1)} * mlx5::kWqebbBytes;
      queue_.UpdateSendDbrRecord(base);
      queue_.RingDoorbell(mlx5::Be64{A::Load(reinterpret_cast<const uint64_t*>(last))});
      observer().RangForOthers();
    }
    const uint32_t most = slots + Segment(rung);
    end_.OpenGate(fits ? slots : 0, free < most ? free : most);
    if (fits) return Code::kOk;
    observer().Pending(Stall::kFull);
    return Code::kPending;
  }

  /// Returns how many slots may pass until the limit is moved again: fewer if posters leave the doorbell to
  /// each other.
  WARPVERBS_DEVICE uint32_t Segment(bool alone) const {
    constexpr uint32_t kMost = 4096;
    const uint32_t quarter = view().depth / 4;
    return alone || quarter < kMost ? quarter : kMost;
  }
};

}  // namespace warpverbs::inline v0_2::device
