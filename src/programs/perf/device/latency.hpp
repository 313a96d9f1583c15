#pragma once

#include "perf/device/verbs.hpp"
#include "perf/device/work.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/device/send_queue.hpp"

/// Latency tests: one thread exchanges one message at a time.
namespace warpverbs::perf {

/// Times reads and atomics from post to completion.
template <arch::Arch A, class Verb>
WARPVERBS_DEVICE void PostToCompletion(const LatencyJob& job) {
  device::SendQueue<A, device::Exclusive> queue(job.flow.queue);
  Place place(job.flow, 0);
  device::Status status;
  uint64_t now_ns = A::NowNs();
  for (uint32_t i = 0; i < job.count && status.ok(); ++i, place.Next()) {
    job.stamps_ns[i] = now_ns;
    const device::WaitLimit limit{.deadline_ns = now_ns + job.timeout_ns, .abort = &job.result->abort};
    const device::Posted posted = queue.Post(Verb::Operation(place), limit);
    status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
    now_ns = A::NowNs();
  }
  job.stamps_ns[job.count] = now_ns;
  RecordResult<A>(*job.result, status, 0);
}

/// Loads a byte that a NIC writes.
template <arch::Arch A>
WARPVERBS_DEVICE uint8_t LoadByte(const uint8_t* byte) {
  if constexpr (requires { A::LoadAcquire(byte); }) {
    return A::LoadAcquire(byte);
  } else {  // the GPU arch has no byte load: load the word around it
    const auto address = reinterpret_cast<uint64_t>(byte);
    return static_cast<uint8_t>(A::Load32(reinterpret_cast<const uint32_t*>(address & ~uint64_t{3})) >>
                                (address & 3) * 8);
  }
}

/// A message that is inlined in its WQE. Its last byte is the mark.
template <uint32_t kBytes>
struct InlineMessage {
  uint8_t bytes[kBytes];
};

/// Transfers by RDMA write. The receiver polls the last byte, the mark, which changes with each message.
template <arch::Arch A>
class WriteTransfer {
 public:
  WARPVERBS_DEVICE explicit WriteTransfer(const LatencyJob& job)
      : job_(job), mark_(reinterpret_cast<const uint8_t*>(job.landing.addr) + job.landing.bytes - 1) {}

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
    // The peer has answered the last message, so the NIC has read it.
    reinterpret_cast<uint8_t*>(job_.flow.local.addr)[bytes - 1] = mark;
    return queue.Post(device::Write(to, job_.flow.local), limit, flags);
  }
  WARPVERBS_DEVICE device::Status Poll(uint8_t mark) const {
    if (LoadByte<A>(mark_) != mark) return {.code = device::Code::kPending};
    A::AcquireAfterCompletion();
    return {};
  }

 private:
  template <uint32_t kBytes>
  WARPVERBS_DEVICE device::Posted PostInline(device::SendQueue<A, device::Exclusive>& queue, uint8_t mark,
                                             const device::WaitLimit& limit, uint32_t flags) {
    InlineMessage<kBytes> message{};
    message.bytes[kBytes - 1] = mark;
    return queue.Post(device::WriteInline<InlineMessage<kBytes>>{job_.flow.remote, message}, limit, flags);
  }

  const LatencyJob& job_;
  const uint8_t* mark_;
};

/// Transfers by send. The receiver polls its receive queue.
template <arch::Arch A>
class SendTransfer {
 public:
  WARPVERBS_DEVICE explicit SendTransfer(const LatencyJob& job) : job_(job), receives_(job.receives) {}

  WARPVERBS_DEVICE device::Posted Post(device::SendQueue<A, device::Exclusive>& queue, uint8_t,
                                       const device::WaitLimit& limit, uint32_t flags) {
    return queue.Post(device::Send(job_.flow.local), limit, flags);
  }
  WARPVERBS_DEVICE device::Status Poll(uint8_t) {
    const device::Received received = receives_.PollOnce();
    if (!received.status.ok()) return received.status;
    const device::Status posted = receives_.Post(job_.landing);
    receives_.Submit();
    return posted;
  }

 private:
  const LatencyJob& job_;
  device::ReceiveQueue<A> receives_;
};

/// Times round trips: each message answers the peer's.
template <arch::Arch A, class Transfer>
WARPVERBS_DEVICE void PingPong(const LatencyJob& job) {
  constexpr uint32_t kSignalInterval = 32;  // completions free the queue; nothing waits for them
  device::SendQueue<A, device::Exclusive> queue(job.flow.queue);
  Transfer transfer(job);
  device::Posted posted{};
  device::Status status;
  IdleTimeout<A> idle(job.timeout_ns, &job.result->abort);
  for (uint32_t i = 0; i < job.count && status.ok(); ++i) {
    const auto number = static_cast<uint8_t>(job.first_mark + i);
    const auto post = [&] {
      const device::WaitLimit limit{.deadline_ns = A::NowNs() + job.timeout_ns, .abort = &job.result->abort};
      const bool signaled = i % kSignalInterval == 0 || i + 1 == job.count;
      posted = transfer.Post(queue, number, limit, signaled ? uint32_t{mlx5::kCqeAlways} : 0);
      status = posted.status;
    };
    job.stamps_ns[i] = A::NowNs();
    if (!job.answers) post();
    if (idle.OnProgress() == device::Code::kAborted) status = {.code = device::Code::kAborted};
    while (status.ok() && (status = transfer.Poll(number)).code == device::Code::kPending) {
      // If this side's message failed, no answer can arrive: check the queue now and then.
      if ((i != 0 || !job.answers) && idle.CheckDue() &&
          queue.Test(posted.ticket).code == device::Code::kError) {
        status = queue.Test(posted.ticket);
      } else if (const device::Code code = idle.OnIdle(); code == device::Code::kPending) {
        status = {};
      } else {
        status = {.code = code};
      }
    }
    if (job.answers && status.ok()) post();
  }
  job.stamps_ns[job.count] = A::NowNs();
  const device::WaitLimit limit{.deadline_ns = A::NowNs() + job.timeout_ns, .abort = &job.result->abort};
  if (status.ok()) status = queue.Wait(posted.ticket, limit);
  RecordResult<A>(*job.result, status, 0);
}

}  // namespace warpverbs::perf
