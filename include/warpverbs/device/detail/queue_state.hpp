#pragma once

#include "warpverbs/device/detail/queue_core.hpp"

/// The protocol of a send queue. docs/shared-queue.md describes it and proves it.
namespace warpverbs::inline v0_2::device {

/// One thread's state of a send queue: reserves slots, publishes what was written there, and waits for
/// completions. Contended posters have a protocol of their own: contended_queue.hpp.
template <arch::Arch A, Sharing S, Observing O = Unobserved>
class QueueState : public QueueCore<A, S, O> {
  using Core = QueueCore<A, S, O>;
  using Core::credit_, Core::cursor_, Core::end_, Core::queue_;

 public:
  using Core::observer, Core::view;

  WARPVERBS_DEVICE explicit QueueState(const QueueView& queue, const PosterState& poster = {})
      : Core(queue, poster) {}

  /// Returns true if the next slots are known to be free.
  ///
  /// A bound that is too old is behind by more than the depth, and so leaves no credit.
  WARPVERBS_DEVICE bool HasCredit(uint32_t slots) const {
    return end_.reserved() + slots - cursor_.completed() <= credit_;
  }

  /// Reserves the next slots, up to end().reserved(), if they are known to be free and no other poster was
  /// faster.
  WARPVERBS_DEVICE bool TryReserve(uint32_t slots, const uint64_t*) {
    return HasCredit(slots) && end_.TryReserve(slots);
  }

  /// Makes `reserved` the end of the queue.
  WARPVERBS_DEVICE void StartAt(uint32_t reserved) {
    end_.SetReserved(reserved);
    cursor_ = CompletionCursor<A>(reserved);
  }

  /// Reserves the next slots, up to end().reserved(), as soon as they are free: kOk, kFull, kTimeout,
  /// kAborted, kError, or kInvalid for a poster that may not post at all.
  ///
  /// A lost race is no reason to give up or to pause: another poster has made progress. But a poster might
  /// lose again and again, so every 1024th loss counts as a round.
  WARPVERBS_DEVICE Code Reserve(uint32_t slots, const WaitLimit& limit) {
    if (MisuseOf<A, S>(view().flags) != RequestError::kNone || !end_.IsOnlyPoster()) return Code::kInvalid;
    constexpr uint32_t kMaxLost = 1024;
    uint32_t lost = 0;
    const Code code = WaitUntil<A>(
        limit, [&](bool) __attribute__((always_inline)) {
          do {
            if (!HasCredit(slots) && !UpdateCredit()) return Code::kError;
            if (!HasCredit(slots)) {
              observer().Pending(Stall::kFull);
              return Code::kPending;
            }
            if (end_.TryReserve(slots)) return Code::kOk;
          } while (++lost % kMaxLost != 0);
          return Code::kPending;
        });
    observer().Resume(Stall::kFull);
    return code == Code::kTimeout && limit.deadline_ns == 0 ? Code::kFull : code;
  }

  /// Rings for the WQEs of [base, end), and publishes them.
  ///
  /// @param doorbell  first 8 bytes of the last WQE
  /// @pre    end().IsNextToPublish(base)
  WARPVERBS_DEVICE void Ring(uint32_t base, uint32_t end, mlx5::Be64 doorbell) {
    queue_.UpdateSendDbrRecord(end);
    queue_.RingDoorbell(doorbell);
    end_.Publish(end);
    observer().Published(base, end, true);
  }

  /// Waits until all earlier slots are published, then does what Ring() does, or leaves the doorbell to the
  /// next poster: kOk or kError.
  WARPVERBS_DEVICE Code Publish(uint32_t base, uint32_t end, mlx5::Be64 doorbell, const uint64_t* abort) {
    A::Release();  // now, while there is time: the poster that is next holds up all behind it
    // Doorbells leave in order.
    const Code code = this->AwaitPredecessors(base, abort, [&] { return end_.ReloadIsNextToPublish(base); });
    if (code != Code::kOk) return code;
    if (!MayDeferDoorbell(base, end)) {
      Ring(base, end, doorbell);
      return Code::kOk;
    }
    end_.PublishDeferred(end);
    observer().Published(base, end, false);
    return Code::kOk;
  }

  /// Finds the last slot that any thread has posted before the call.
  WARPVERBS_DEVICE Code LastTicket(Ticket& last, const WaitLimit&) {
    end_.Reload();
    last = {end_.published() - 1};
    return Code::kOk;
  }

 private:
  /// Returns false if the queue has failed.
  WARPVERBS_DEVICE bool UpdateCredit() {
    observer().Polled();
    this->DrainRing();
    end_.Reload();
    return this->UpdateCompleted();
  }

  /// Returns true if a successor will ring the doorbell for these slots as well, or defer to its own
  /// successor.
  ///
  /// Each quarter of the queue gets a doorbell of its own, so that the NIC does not run out of work.
  WARPVERBS_DEVICE bool MayDeferDoorbell(uint32_t base, uint32_t end) const {
    const uint32_t quarter = view().depth / 4;
    return end_.HasSuccessor(end) && quarter != 0 && ((base ^ end) & ~(quarter - 1)) == 0;
  }
};

}  // namespace warpverbs::inline v0_2::device
