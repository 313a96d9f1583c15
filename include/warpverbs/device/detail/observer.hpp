#pragma once

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/device/status.hpp"

namespace warpverbs::inline v0_2::device {

/// What one thread's SendQueue counts and traces. The code of a queue calls it at each step, in lines of
/// their own: tests/isa removes these lines, and compares the code of Unobserved with what is left.
template <arch::Arch A, Observing O>
class Observer;

template <arch::Arch A>
class Observer<A, Unobserved> {
 public:
  WARPVERBS_DEVICE explicit Observer(QueueControl*) {}

  /// Begins a post.
  WARPVERBS_DEVICE void Begin() {}
  /// Counts the slots of [base, end), with a doorbell of their own or without one. Ends a wait for the
  /// caller's turn: only now, since others wait for what the caller publishes.
  WARPVERBS_DEVICE void Published(uint32_t, uint32_t, bool) {}
  /// Counts a doorbell for slots that others have published.
  WARPVERBS_DEVICE void RangForOthers() {}
  /// Counts a look for completions.
  WARPVERBS_DEVICE void Polled() {}
  /// Begins a wait, or tells that it goes on.
  WARPVERBS_DEVICE void Pending(Stall) {}
  /// Ends the wait for a cause, if there is one.
  WARPVERBS_DEVICE void Resume(Stall) {}
  /// Begins to wait for a completion, or to look for it once if the limit has no deadline.
  WARPVERBS_DEVICE void BeginWait(const WaitLimit&) {}
  /// Counts a look for the completion that a wait names.
  WARPVERBS_DEVICE void Probed(Code) {}
  /// Ends the wait for a completion.
  WARPVERBS_DEVICE void EndWait(Ticket, Code) {}
};

template <arch::Arch A>
class Observer<A, Counted> {
 public:
  static constexpr uint64_t kFlushNs = 1'000'000;
  static constexpr uint32_t kFlushPosts = 1024, kFlushPolls = 1 << 20;

  WARPVERBS_DEVICE explicit Observer(QueueControl* control) : control_(control) {}
  WARPVERBS_DEVICE Observer(Observer&& other) noexcept : control_(other.control_) {
    posts_ = other.posts_, wqebbs_ = other.wqebbs_, elided_ = other.elided_, rang_ = other.rang_,
    polls_ = other.polls_;
    other.posts_ = other.wqebbs_ = other.elided_ = other.rang_ = other.polls_ = 0;
    for (uint32_t cause = 0; cause < kStallCauses; ++cause) {
      stalls_[cause] = other.stalls_[cause];
      other.stalls_[cause] = {};
    }
  }
  WARPVERBS_DEVICE ~Observer() { Flush(); }

  WARPVERBS_DEVICE void Begin() {}
  WARPVERBS_DEVICE void Published(uint32_t base, uint32_t end, bool rang) {
    Resume(Stall::kTurn);
    wqebbs_ += end - base;
    if (!rang) ++elided_;
    if (++posts_ == kFlushPosts) Flush();
  }
  WARPVERBS_DEVICE void RangForOthers() { ++rang_; }
  WARPVERBS_DEVICE void Polled() {
    if (++polls_ == kFlushPolls) Flush();
  }

  WARPVERBS_DEVICE void Pending(Stall cause) {
    constexpr uint32_t kRoundsPerLook = 64;  // at the clock, as in Waiter
    if (waits_ && ++rounds_ % kRoundsPerLook != 0) return;
    const uint64_t now = A::NowNs();
    if (!waits_) {
      waits_ = true;
      rounds_ = 0;
      began_ns_ = counted_ns_ = now;
      ++Of(cause).count;
    }
    CountTime(cause, now);
  }
  WARPVERBS_DEVICE void Resume(Stall cause) {
    if (!waits_) return;
    CountTime(cause, A::NowNs());
    waits_ = false;
  }

  WARPVERBS_DEVICE void BeginWait(const WaitLimit& limit) {
    waits_ = false;  // for a turn that never came
    may_wait_ = limit.deadline_ns != 0;
  }
  WARPVERBS_DEVICE void Probed(Code code) {
    Polled();
    if (code == Code::kPending && may_wait_) Pending(Stall::kCompletion);
  }
  WARPVERBS_DEVICE void EndWait(Ticket, Code) { Resume(Stall::kCompletion); }

 protected:
  WARPVERBS_DEVICE QueueControl& control() const { return *control_; }
  /// The begin and the end, so far, of the last wait.
  WARPVERBS_DEVICE bool waits() const { return waits_; }
  WARPVERBS_DEVICE uint64_t began_ns() const { return began_ns_; }
  WARPVERBS_DEVICE uint64_t counted_ns() const { return counted_ns_; }

 private:
  WARPVERBS_DEVICE StallCounters& Of(Stall cause) { return stalls_[static_cast<uint32_t>(cause)]; }

  WARPVERBS_DEVICE void CountTime(Stall cause, uint64_t now) {
    StallCounters& stall = Of(cause);
    stall.total_ns += now - counted_ns_;
    counted_ns_ = now;
    if (now - began_ns_ > stall.longest_ns) stall.longest_ns = now - began_ns_;
    if (now - flushed_ns_ < kFlushNs) return;
    flushed_ns_ = now;
    Flush();
  }

  /// Adds the counts to those of the queue, which other posters change, too.
  WARPVERBS_DEVICE void Flush() {
    QueueCounters& all = control_->counters;
    uint32_t doorbells = posts_ - elided_ + rang_;
    rang_ = 0;
    Move(doorbells, all.doorbells);
    Move(posts_, all.posts);
    Move(wqebbs_, all.wqebbs);
    Move(elided_, all.elided);
    Move(polls_, all.polls);
    for (uint32_t cause = 0; cause < kStallCauses; ++cause) {
      Move(stalls_[cause].count, all.stalls[cause].count);
      Move(stalls_[cause].total_ns, all.stalls[cause].total_ns);
      Raise(stalls_[cause].longest_ns, all.stalls[cause].longest_ns);
    }
  }
  template <std::unsigned_integral T>
  WARPVERBS_DEVICE static void Move(T& mine, uint64_t& all) {
    if (mine != 0) static_cast<void>(A::Add(&all, mine));
    mine = 0;
  }
  /// Raises a word to a greater one.
  WARPVERBS_DEVICE static void Raise(uint64_t mine, uint64_t& all) {
    if (mine == 0) return;
    for (uint64_t seen = A::Load(&all); seen < mine;) {
      const uint64_t before = A::CompareSwap(&all, seen, mine);
      if (before == seen) return;
      seen = before;
    }
  }

  QueueControl* control_;
  uint32_t posts_ = 0, wqebbs_ = 0, elided_ = 0, rang_ = 0, polls_ = 0;
  StallCounters stalls_[kStallCauses] = {};
  uint64_t began_ns_ = 0, counted_ns_ = 0;  // of a wait: its begin, and until when it is counted
  uint64_t flushed_ns_ = 0;
  uint32_t rounds_ = 0;
  bool waits_ = false, may_wait_ = false;
};

template <arch::Arch A>
class Observer<A, Traced> : public Observer<A, Counted> {
  using Base = Observer<A, Counted>;

 public:
  WARPVERBS_DEVICE explicit Observer(QueueControl* control) : Base(control), ring_(control->trace) {}

  WARPVERBS_DEVICE void Begin() {
    post_ns_ = A::NowNs();
    full_ = turn_ = {};
  }
  WARPVERBS_DEVICE void Published(uint32_t base, uint32_t end, bool rang) {
    Resume(Stall::kTurn);
    Base::Published(base, end, rang);
    const uint32_t ticket = end - 1;
    const uint64_t now = A::NowNs();
    Store(TraceKind::kPost, ticket, post_ns_ != 0 ? post_ns_ : now, end - base);
    if (full_.began_ns != 0) Store(TraceKind::kFull, ticket, full_);
    if (turn_.began_ns != 0) Store(TraceKind::kTurn, ticket, turn_);
    Store(TraceKind::kDoorbell, ticket, now, rang);
    post_ns_ = 0;
    full_ = turn_ = {};
  }
  WARPVERBS_DEVICE void Resume(Stall cause) {
    const bool waited = this->waits();
    Base::Resume(cause);
    Span& span = cause == Stall::kFull ? full_ : turn_;
    if (waited) span = {this->began_ns(), this->counted_ns()};
  }

  WARPVERBS_DEVICE void BeginWait(const WaitLimit& limit) {
    Base::BeginWait(limit);
    wait_ns_ = A::NowNs();
  }
  WARPVERBS_DEVICE void EndWait(Ticket ticket, Code code) {
    const bool waited = this->waits();
    Base::EndWait(ticket, code);
    if (code != Code::kOk && !waited) return;  // a test
    const TraceKind kind = code == Code::kOk ? TraceKind::kDone : TraceKind::kWait;
    Store(kind, ticket.index, {wait_ns_, A::NowNs()});
  }

 private:
  struct Span {
    uint64_t began_ns, ended_ns;
  };

  WARPVERBS_DEVICE void Store(TraceKind kind, uint32_t ticket, const Span& span) const {
    const uint64_t ns = span.ended_ns - span.began_ns;
    Store(kind, ticket, span.began_ns, ns < ~0u ? static_cast<uint32_t>(ns) : ~0u);
  }
  WARPVERBS_DEVICE void Store(TraceKind kind, uint32_t ticket, uint64_t time_ns, uint32_t value) const {
    if (ring_.events == nullptr) return;
    TraceEvent* const event =
        ring_.events + ring_.slots * static_cast<uint32_t>(kind) + (ticket & (ring_.slots - 1));
    auto* const words = reinterpret_cast<uint64_t*>(event);
    A::Store(words, time_ns);
    A::Store(words + 1, A::Join(value, ticket));
  }

  TraceRing ring_;
  uint64_t post_ns_ = 0, wait_ns_ = 0;
  Span full_{}, turn_{};
};

}  // namespace warpverbs::inline v0_2::device
