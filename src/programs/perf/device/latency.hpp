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

/// Writes zeros that end in a mark. The WQE contains them, in one slot or two. A WQE that completes for a
/// ticket has one slot, so another one follows the WQE of two.
struct WriteInlineMark {
  device::RemoteMemory remote;
  uint32_t bytes;  ///< 1 to kMaxInlineBytes
  uint8_t mark;

  WARPVERBS_DEVICE uint32_t Slots(const device::QueueView&) const {
    return bytes <= device::kMaxInlineWriteBytes ? 1 : 3;
  }
  template <arch::Arch A>
  WARPVERBS_DEVICE mlx5::Be64 Encode(const device::QueueView& view, uint32_t index, uint32_t flags) const {
    const device::WqeWriter<A> wqe(view, index);
    wqe.Remote(remote);
    const uint32_t last = kHeaderBytes + bytes - 1;  // place of the mark behind the remote address
    uint32_t segments = 2;
    for (uint32_t at = 0; at <= last; at += mlx5::kSegmentBytes, ++segments) {
      const uint32_t header = at == 0 ? mlx5::kInlineFlag | bytes : 0;
      wqe.Quad32(segments, {header | WordAt(at, last), WordAt(at + 4, last), WordAt(at + 8, last),
                            WordAt(at + 12, last)});
    }
    if (Slots(view) == 1) return wqe.Control({mlx5::WqeOpcode::kRdmaWrite, segments, flags});
    wqe.Control({mlx5::WqeOpcode::kRdmaWrite, segments, device::WithoutCompletion(flags)});
    return device::Nop().template Encode<A>(view, index + 2, flags);
  }
  WARPVERBS_DEVICE device::RequestError Check(const device::RegionCheck& check) const {
    return check.Find({remote, bytes, device::kWritable});
  }

 private:
  static constexpr uint32_t kHeaderBytes = 4;

  /// Returns the word at an offset, with the mark in it if it is there.
  WARPVERBS_DEVICE uint32_t WordAt(uint32_t offset, uint32_t last) const {
    return last / 4 == offset / 4 ? uint32_t{mark} << (24 - last % 4 * 8) : 0;
  }
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
    if (bytes <= job_.inline_bytes)
      return queue.Post(WriteInlineMark{to, static_cast<uint32_t>(bytes), mark}, limit, flags);
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
