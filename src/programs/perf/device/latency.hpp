#pragma once

#include "perf/device/verbs.hpp"
#include "perf/device/work.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/device/send_queue.hpp"

/// Messages one at a time, by one thread.
namespace warpverbs::perf {

/// From post to completion: reads and atomics, which bring their answer with them.
template <arch::Arch A, class Verb>
WARPVERBS_DEVICE void PostToCompletion(const LatencyJob& job) {
  device::SendQueue<A, device::Exclusive> queue(job.flow.queue);
  Place place(job.flow, 0);
  device::Status status;
  uint64_t now_ns = A::NowNs();
  for (uint32_t i = 0; i < job.count && status.ok(); ++i, place.Next()) {
    job.stamps_ns[i] = now_ns;
    const device::WaitLimit limit{.deadline_ns = now_ns + job.patience_ns, .abort = &job.report->abort};
    const device::Posted posted = queue.Post(Verb::Operation(place), limit);
    status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
    now_ns = A::NowNs();
  }
  job.stamps_ns[job.count] = now_ns;
  queue.Save();
  Conclude<A>(*job.report, status, 0);
}

/// A byte of memory that a NIC writes.
template <arch::Arch A>
WARPVERBS_DEVICE uint8_t LoadByte(const uint8_t* byte) {
  if constexpr (requires { A::LoadAcquire(byte); }) {
    return A::LoadAcquire(byte);
  } else {  // a GPU has no such load here: it takes the word
    const auto address = reinterpret_cast<uint64_t>(byte);
    return static_cast<uint8_t>(A::Load32(reinterpret_cast<const uint32_t*>(address & ~uint64_t{3})) >>
                                (address & 3) * 8);
  }
}

/// A message that travels in the work queue entry; its last byte is the mark.
template <uint32_t kBytes>
struct InlineMessage {
  uint8_t bytes[kBytes];
};

/// Writes, seen by their last byte, which is different in each.
template <arch::Arch A>
class WrittenMark {
 public:
  WARPVERBS_DEVICE explicit WrittenMark(const LatencyJob& job)
      : job_(job), seen_(reinterpret_cast<const uint8_t*>(job.landing.addr) + job.landing.bytes - 1) {}

  WARPVERBS_DEVICE device::Posted Post(device::SendQueue<A, device::Exclusive>& queue, uint8_t mark,
                                       const device::WaitLimit& limit, uint32_t flags) {
    const device::RemoteMemory& to = job_.flow.remote;
    const uint64_t bytes = job_.flow.local.bytes;
    if (bytes <= job_.inline_bytes) {
      if (bytes == 1) return PostInline<1>(queue, mark, limit, flags);
      if (bytes == 2) return PostInline<2>(queue, mark, limit, flags);
      if (bytes == 4) return PostInline<4>(queue, mark, limit, flags);
      if (bytes == 8) return PostInline<8>(queue, mark, limit, flags);
      if (bytes == 16) return PostInline<16>(queue, mark, limit, flags);
    }
    // The NIC has read the last message: its answer is there.
    reinterpret_cast<uint8_t*>(job_.flow.local.addr)[bytes - 1] = mark;
    return queue.Post(device::Write(to, job_.flow.local), limit, flags);
  }
  WARPVERBS_DEVICE device::Status Look(uint8_t mark) const {
    if (LoadByte<A>(seen_) != mark) return {.code = device::Code::kPending};
    A::AcquireAfterCompletion();
    return {};
  }
  WARPVERBS_DEVICE void Save() const {}

 private:
  template <uint32_t kBytes>
  WARPVERBS_DEVICE device::Posted PostInline(device::SendQueue<A, device::Exclusive>& queue, uint8_t mark,
                                             const device::WaitLimit& limit, uint32_t flags) {
    InlineMessage<kBytes> message{};
    message.bytes[kBytes - 1] = mark;
    return queue.Post(device::WriteInline<InlineMessage<kBytes>>{job_.flow.remote, message}, limit, flags);
  }

  const LatencyJob& job_;
  const uint8_t* seen_;
};

/// Sends, seen by their receive.
template <arch::Arch A>
class SentMark {
 public:
  WARPVERBS_DEVICE explicit SentMark(const LatencyJob& job) : job_(job), receives_(job.receives) {}

  WARPVERBS_DEVICE device::Posted Post(device::SendQueue<A, device::Exclusive>& queue, uint8_t,
                                       const device::WaitLimit& limit, uint32_t flags) {
    return queue.Post(device::Send(job_.flow.local), limit, flags);
  }
  WARPVERBS_DEVICE device::Status Look(uint8_t) {
    const device::Received received = receives_.PollOnce();
    if (!received.status.ok()) return received.status;
    const device::Status posted = receives_.Post(job_.landing);
    receives_.Submit();
    return posted;
  }
  WARPVERBS_DEVICE void Save() const { receives_.Save(); }

 private:
  const LatencyJob& job_;
  device::ReceiveQueue<A> receives_;
};

/// To and fro: each message answers the other side's.
template <arch::Arch A, class Mark>
WARPVERBS_DEVICE void PingPong(const LatencyJob& job) {
  constexpr uint32_t kUnannounced = 32;  // between two completions, which nobody waits for
  device::SendQueue<A, device::Exclusive> queue(job.flow.queue);
  Mark mark(job);
  device::Posted posted{};
  device::Status status;
  Patience<A> patience(job.patience_ns, &job.report->abort);
  for (uint32_t i = 0; i < job.count && status.ok(); ++i) {
    const auto number = static_cast<uint8_t>(job.first_mark + i);
    const auto post = [&] {
      const device::WaitLimit limit{.deadline_ns = A::NowNs() + job.patience_ns, .abort = &job.report->abort};
      const bool announced = i % kUnannounced == 0 || i + 1 == job.count;
      posted = mark.Post(queue, number, limit, announced ? uint32_t{mlx5::kCqeAlways} : 0);
      status = posted.status;
    };
    job.stamps_ns[i] = A::NowNs();
    if (!job.answers) post();
    if (patience.Moved() == device::Code::kAborted) status = {.code = device::Code::kAborted};
    while (status.ok() && (status = mark.Look(number)).code == device::Code::kPending) {
      // If it cannot come any more, this side's queue knows first.
      if ((i != 0 || !job.answers) && patience.IsMilestone() &&
          queue.Test(posted.ticket).code == device::Code::kError) {
        status = queue.Test(posted.ticket);
      } else if (const device::Code code = patience.Idle(); code == device::Code::kPending) {
        status = {};
      } else {
        status = {.code = code};
      }
    }
    if (job.answers && status.ok()) post();
  }
  job.stamps_ns[job.count] = A::NowNs();
  const device::WaitLimit limit{.deadline_ns = A::NowNs() + job.patience_ns, .abort = &job.report->abort};
  if (status.ok()) status = queue.Wait(posted.ticket, limit);
  mark.Save();
  queue.Save();
  Conclude<A>(*job.report, status, 0);
}

}  // namespace warpverbs::perf
