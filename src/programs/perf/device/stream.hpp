#pragma once

#include "perf/device/verbs.hpp"
#include "warpverbs/device/detail/group.hpp"
#include "warpverbs/device/send_queue.hpp"

/// Streams of messages: as many are outstanding as the job allows.
namespace warpverbs::perf {

/// A flow with a single poster. A thread may post to several such flows in turn.
///
/// @pre  cq_mod + batch <= tx_depth + 1: a full queue has a signaled message outstanding
template <arch::Arch A, class Verb>
class SingleThreadFlow {
 public:
  WARPVERBS_DEVICE SingleThreadFlow(const StreamJob& job, uint32_t number)
      : job_(job),
        flow_(job.flows[number]),
        number_(number),
        queue_(flow_.queue),
        place_(flow_, 0),
        signal_(FirstSignal(job)),
        to_signal_(signal_) {}
  SingleThreadFlow(SingleThreadFlow&&) noexcept = default;

  WARPVERBS_DEVICE bool Done() const { return completed_ == job_.count || !status_.ok(); }
  WARPVERBS_DEVICE const device::Status& status() const { return status_; }
  WARPVERBS_DEVICE void Fail(device::Code code) { status_ = {.code = code}; }

  /// Posts as many messages as fit, and takes completions that have arrived. Returns whether it did either.
  WARPVERBS_DEVICE bool Step() {
    const uint32_t posted = posted_, completed = completed_;
    while (posted_ != job_.count && PostSome()) continue;
    if (completed_ != posted_ && status_.ok()) TakeCompletions();
    return posted_ != posted || completed_ != completed;
  }

  /// Records the outcome, and leaves the queue to the next launch.
  WARPVERBS_DEVICE void End() {
    job_.spans[number_] = {begin_ns_, end_ns_};
    RecordResult<A>(*job_.result, status_, number_);
  }

 private:
  WARPVERBS_DEVICE static uint32_t FirstSignal(const StreamJob& job) {
    return (job.cq_mod < job.count ? job.cq_mod : job.count) - 1;
  }

  /// Returns the signaled message after this one: each cq_mod-th, and the last.
  WARPVERBS_DEVICE uint32_t NextSignal(uint32_t signal) const {
    const uint32_t left = job_.count - 1 - signal;
    return signal + (left < job_.cq_mod ? left : job_.cq_mod);
  }

  WARPVERBS_DEVICE uint32_t FlagsOf(uint32_t message) const {
    return message == to_signal_ ? uint32_t{mlx5::kCqeAlways} : 0;
  }

  WARPVERBS_DEVICE void HasPosted(uint32_t message) {
    if (message == to_signal_ && message + 1 != job_.count) to_signal_ = NextSignal(message);
    place_.Next();
  }

  /// Posts a batch if there is room. Returns whether it did.
  WARPVERBS_DEVICE bool PostSome() {
    const uint32_t left = job_.count - posted_;
    const uint32_t batch = left < job_.batch ? left : job_.batch;
    if (posted_ - completed_ + batch > job_.tx_depth) return false;
    if (begin_ns_ == 0) begin_ns_ = A::NowNs();
    const uint64_t now_ns = job_.posted_ns != nullptr ? A::NowNs() : 0;
    const device::Posted posted = batch == 1 ? PostOne() : PostBatch(batch);
    if (posted.status.code == device::Code::kFull) return false;
    if (!posted.status.ok()) {
      status_ = posted.status;
      return false;
    }
    last_ticket_ = posted.ticket;
    if (job_.posted_ns != nullptr) {
      for (uint32_t i = 0; i < batch; ++i) job_.posted_ns[Index(posted_ + i)] = now_ns;
    }
    posted_ += batch;
    return true;
  }

  WARPVERBS_DEVICE device::Posted PostOne() {
    const auto operation = Verb::Operation(place_);
    slots_ = operation.Slots(flow_.queue);
    const device::Posted posted = queue_.Post(operation, {}, FlagsOf(posted_));
    if (posted.status.ok()) HasPosted(posted_);
    return posted;
  }

  WARPVERBS_DEVICE device::Posted PostBatch(uint32_t size) {
    slots_ = Verb::Operation(place_).Slots(flow_.queue);
    auto batch = queue_.Begin(size * slots_);
    if (!batch.status().ok()) return {batch.status(), {}};
    for (uint32_t i = posted_; i < posted_ + size; ++i) {
      static_cast<void>(batch.Add(Verb::Operation(place_), FlagsOf(i)));
      HasPosted(i);
    }
    return batch.Submit();
  }

  WARPVERBS_DEVICE void TakeCompletions() {
    uint64_t now_ns = 0;
    while (completed_ != posted_ && signal_ < posted_) {
      // All messages take the same number of slots, so the ticket follows from the last one.
      const device::Status status = queue_.Test({last_ticket_.index - (posted_ - 1 - signal_) * slots_});
      if (status.code == device::Code::kPending) return;
      if (!status.ok()) {
        status_ = status;
        return;
      }
      if (now_ns == 0 && (job_.completed_ns != nullptr || signal_ == job_.count - 1)) now_ns = A::NowNs();
      if (job_.completed_ns != nullptr) {
        for (uint32_t i = completed_; i <= signal_; ++i) job_.completed_ns[Index(i)] = now_ns;
      }
      completed_ = signal_ + 1;
      if (completed_ == job_.count) {
        end_ns_ = now_ns;
      } else {
        signal_ = NextSignal(signal_);
      }
    }
  }

  WARPVERBS_DEVICE uint64_t Index(uint32_t message) const { return uint64_t{number_} * job_.count + message; }

  const StreamJob& job_;
  const Flow& flow_;
  uint32_t number_;
  device::SendQueue<A, device::Exclusive> queue_;
  Place place_;
  uint32_t signal_;     ///< the next message to complete with a CQE
  uint32_t to_signal_;  ///< the next message to post with a signal
  uint32_t posted_ = 0, completed_ = 0;
  uint32_t slots_ = 1;  ///< WQEBBs per message
  device::Ticket last_ticket_{};
  uint64_t begin_ns_ = 0, end_ns_ = 0;
  device::Status status_;
};

/// Runs the flows of one thread in turn, until all are done or one has failed.
template <arch::Arch A, class Flow>
WARPVERBS_DEVICE void RunFlows(Flow* flows, uint32_t count, uint64_t timeout_ns, const LaunchResult& result) {
  IdleTimeout<A> idle(timeout_ns, &result.abort);
  for (bool failed = false; !failed;) {
    bool moved = false, open = false;
    for (uint32_t i = 0; i < count; ++i) {
      if (flows[i].Done()) continue;
      moved |= flows[i].Step();
      open |= !flows[i].Done();
      failed |= !flows[i].status().ok();
    }
    if (!open) break;
    if (const device::Code code = moved ? idle.OnProgress() : idle.OnIdle(); code != device::Code::kPending) {
      for (uint32_t i = 0; i < count; ++i)
        if (!flows[i].Done()) flows[i].Fail(code);
      failed = true;
    }
  }
  for (uint32_t i = 0; i < count; ++i) flows[i].End();
}

/// A thread of a group that posts to a flow.
struct GroupThread {
  uint32_t flow, poster;
  uint32_t rank, size;  ///< within its warp or block
};

/// Posts one group's share of a flow. All threads of the group call it together.
///
/// Once cq_mod messages are due, the last message of a doorbell is signaled.
///
/// @pre  job.count is a multiple of the messages that all posters post by one call each
template <arch::Arch A, class Verb, class Sharing, class Cooperation>
WARPVERBS_DEVICE void StreamByGroup(const StreamJob& job, const GroupThread& self,
                                    const Cooperation& cooperation) {
  const Flow& flow = job.flows[self.flow];
  const uint32_t per_call = self.size * job.batch, calls = job.count / (per_call * job.posters);
  const bool last = self.rank + 1 == self.size;
  device::SendQueue<A, Sharing, Cooperation> queue(flow.queue, cooperation);
  const device::Group<A, Cooperation> group(cooperation);
  device::Posted posted{};
  uint32_t unsignaled = 0;
  const uint64_t begin_ns = A::NowNs();
  for (uint32_t call = 0; call < calls && posted.status.ok(); ++call) {
    const device::WaitLimit limit{.deadline_ns = A::NowNs() + job.timeout_ns, .abort = &job.result->abort};
    unsignaled += per_call;
    const bool signals = unsignaled >= job.cq_mod || call + 1 == calls;
    if (signals) unsignaled = 0;
    const uint32_t flags = signals && last ? uint32_t{mlx5::kCqeAlways} : 0;
    Place place(flow, (uint64_t{call} * job.posters + self.poster) * per_call + self.rank * job.batch);
    if (job.batch == 1) {
      posted = queue.Post(Verb::Operation(place), limit, flags);
    } else {
      auto batch = queue.Begin(job.batch * Verb::Operation(place).Slots(flow.queue), limit);
      for (uint32_t i = 0; i < job.batch; ++i, place.Next())
        static_cast<void>(batch.Add(Verb::Operation(place), i + 1 == job.batch ? flags : 0));
      posted = batch.Submit();
    }
    // All threads of a group stop before the same call. Otherwise some would wait for the others.
    if (call % kStepsBetweenChecks == kStepsBetweenChecks - 1 && !group.AllTrue(A::Load(&job.result->abort) == 0))
      posted.status = {.code = device::Code::kAborted};
  }
  const device::WaitLimit limit{.deadline_ns = A::NowNs() + job.timeout_ns, .abort = &job.result->abort};
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  if (last) job.spans[self.flow * job.posters + self.poster] = {begin_ns, A::NowNs()};
  RecordResult<A>(*job.result, status, self.flow);
}

}  // namespace warpverbs::perf
