#pragma once

#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/device/signal.hpp"

/// The work of device_transfer_benchmark's threads: two sides, each with its own queue, write to each other.
/// The kernels are in transfer_benchmark.cu.
namespace warpverbs::bench {

/// Size of each source and each target; a target's signal follows it.
inline constexpr uint64_t kDataBytes = 32 << 20;
inline constexpr uint64_t kTargetBytes = kDataBytes + 65536;
inline constexpr uint64_t kLaunchLimitNs = 10'000'000'000;

/// One side's own queue and memory, and its view of the peer.
struct Side {
  device::QueueView queue;
  uint64_t* source;
  uint64_t* target;  ///< destination of the peer's writes
  mlx5::Be32 source_lkey;
  device::RemoteMemory peer;  ///< the peer's target

  // The expected contents after all writes; the rest of the target and the signal stay 0.
  uint64_t expected_words;
  uint64_t expected_signal;
};

struct Job {
  Side sides[2];
  uint32_t count;  ///< messages of each posting thread
  uint32_t bytes;  ///< length of a message: a power of two, at least 8
  uint64_t seed;   ///< nonzero, less than 2^32, and different in each launch, so that the words differ
};

/// The kernel's findings.
struct Report {
  uint64_t abort;         ///< nonzero after a thread failed: the others stop
  device::Status status;  ///< status of the first thread that failed
  uint64_t wrong;         ///< number of wrong words
};

/// A time span by the clock that all threads share.
struct Span {
  uint64_t begin_ns, end_ns;
};

/// A kernel's data, in GPU memory.
struct Stage {
  static constexpr uint32_t kSpans = 10'000;

  Job job;
  Report report;
  Span spans[kSpans];  ///< one for each message if latency is measured, otherwise for each block
};

/// Returns the value of a word of the source.
WARPVERBS_DEVICE uint64_t WordOf(uint64_t seed, uint64_t word) { return seed << 32 | word; }

/// Returns the offset of message `n` in source and target. Messages wrap around at the end of the memory.
WARPVERBS_DEVICE uint64_t OffsetOf(uint32_t bytes, uint64_t n) { return n * bytes & (kDataBytes - 1); }

WARPVERBS_DEVICE auto WriteOf(const Side& side, uint32_t bytes, uint64_t number) {
  const uint64_t offset = OffsetOf(bytes, number);
  return device::Write({side.peer.addr + offset, side.peer.rkey},
                       {reinterpret_cast<uint64_t>(side.source) + offset, bytes, side.source_lkey});
}

/// Returns the limit of all waits of a thread.
template <arch::Arch A>
WARPVERBS_DEVICE device::WaitLimit LimitFor(const Stage& stage) {
  return {.deadline_ns = A::NowNs() + kLaunchLimitNs, .abort = &stage.report.abort};
}

/// Ends a thread's part. The first thread that failed stops the others.
template <arch::Arch A>
WARPVERBS_DEVICE void Conclude(Stage& stage, const device::Status& status) {
  if (!status.ok() && A::CompareSwap(&stage.report.abort, 0, 1) == 0) stage.report.status = status;
}

template <arch::Arch A, class Operation>
WARPVERBS_DEVICE device::Status PostAndWait(device::SendQueue<A, device::Exclusive>& queue,
                                            const Operation& operation, const device::WaitLimit& limit) {
  const device::Posted posted = queue.Post(operation, limit);
  return posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
}

/// Runs one thread: measures a write at a time, from before its post until the thread sees the completion.
template <arch::Arch A>
WARPVERBS_DEVICE void PostToCompletion(Stage& stage) {
  const Job job = stage.job;
  const device::WaitLimit limit = LimitFor<A>(stage);
  device::SendQueue<A, device::Exclusive> queue(job.sides[0].queue);
  device::Status status;
  for (uint32_t i = 0; i < job.count && status.ok(); ++i) {
    const uint64_t begin = A::NowNs();
    status = PostAndWait(queue, WriteOf(job.sides[0], job.bytes, i), limit);
    stage.spans[i] = {begin, A::NowNs()};
  }
  Conclude<A>(stage, status);
}

/// A write that the target's side detects by polling its last word.
struct PlainPut {
  WARPVERBS_DEVICE static auto Operation(const Side& side, uint32_t bytes, uint32_t i) {
    return WriteOf(side, bytes, i);
  }
  template <arch::Arch A>
  WARPVERBS_DEVICE static device::Status Await(const Job& job, uint32_t i, const device::WaitLimit& limit) {
    const uint64_t last = (OffsetOf(job.bytes, i) + job.bytes) / 8 - 1;
    return device::WaitSignal<A>(job.sides[1].target + last, device::Compare::kEqual, WordOf(job.seed, last),
                                 limit);
  }
};

/// A write that the target's side detects by a signal, which counts the messages.
template <bool kAdds>
struct SignalledPut {
  WARPVERBS_DEVICE static auto Operation(const Side& side, uint32_t bytes, uint32_t i) {
    const auto write = WriteOf(side, bytes, i);
    const device::RemoteMemory signal{side.peer.addr + kDataBytes, side.peer.rkey};
    if constexpr (kAdds) {
      return device::PutSignal(write.remote, write.local, device::SignalAdd(signal));
    } else {
      return device::PutSignal(write.remote, write.local, device::SignalSet(signal, i + 1));
    }
  }
  template <arch::Arch A>
  WARPVERBS_DEVICE static device::Status Await(const Job& job, uint32_t i, const device::WaitLimit& limit) {
    return device::WaitSignal<A>(job.sides[1].target + kDataBytes / 8, device::Compare::kGreaterOrEqual,
                                 uint64_t{i} + 1, limit);
  }
};

/// Runs two blocks of one thread each: one puts a message at a time and waits until the other has seen it.
template <arch::Arch A, class Put>
WARPVERBS_DEVICE void OneWay(Stage& stage, uint32_t block) {
  const Job job = stage.job;
  const device::WaitLimit limit = LimitFor<A>(stage);
  device::Status status;
  if (block == 1) {
    for (uint32_t i = 0; i < job.count && status.ok(); ++i) {
      status = Put::template Await<A>(job, i, limit);
      const uint64_t now = A::NowNs();
      const uint64_t last = (OffsetOf(job.bytes, i) + job.bytes) / 8 - 1;
      if (status.ok() && A::Load(job.sides[1].target + last) != WordOf(job.seed, last)) ++stage.report.wrong;
      A::Store(&stage.spans[i].end_ns, now);
    }
    return Conclude<A>(stage, status);
  }
  device::SendQueue<A, device::Exclusive> queue(job.sides[0].queue);
  for (uint32_t i = 0; i < job.count && status.ok(); ++i) {
    const uint64_t begin = A::NowNs();
    status = PostAndWait(queue, Put::Operation(job.sides[0], job.bytes, i), limit);
    if (status.ok())
      status = device::WaitSignal<A>(&stage.spans[i].end_ns, device::Compare::kNotEqual, 0, limit);
    stage.spans[i].begin_ns = begin;
  }
  Conclude<A>(stage, status);
}

/// Runs two blocks of one thread each: inline writes of a word alternate, each in answer to the last.
template <arch::Arch A>
WARPVERBS_DEVICE void PingPong(Stage& stage, uint32_t block) {
  const Side side = stage.job.sides[block];
  const uint64_t seed = stage.job.seed;
  const uint32_t count = stage.job.count;
  const device::WaitLimit limit = LimitFor<A>(stage);
  device::SendQueue<A, device::Exclusive> queue(side.queue);
  const auto post = [&](uint32_t i) {
    const device::RemoteMemory word{side.peer.addr + uint64_t{i} * 8, side.peer.rkey};
    return queue.Post(device::WriteInline{word, WordOf(seed, i)}, limit).status;
  };
  device::Status status;
  for (uint32_t i = 0; i < count && status.ok(); ++i) {
    const uint64_t begin = A::NowNs();
    if (block == 0) status = post(i);
    if (status.ok())
      status = device::WaitSignal<A>(side.target + i, device::Compare::kEqual, WordOf(seed, i), limit);
    if (block == 0) stage.spans[i] = {begin, A::NowNs()};
    if (block == 1 && status.ok()) status = post(i);
  }
  if (status.ok()) status = queue.Flush(limit);
  Conclude<A>(stage, status);
}

/// A thread's rank among the streaming threads.
struct Streamer {
  uint32_t number, all, block;
  bool last;  ///< true for the last thread of a group
};

/// Posts as many writes as the queue takes. The last write before each doorbell requests a completion.
///
/// @tparam kBatch  messages of each thread per doorbell; the count is a multiple of it
template <arch::Arch A, class Sharing, uint32_t kBatch, class Cooperation>
WARPVERBS_DEVICE void Stream(Stage& stage, const Streamer& self, const Cooperation& cooperation) {
  const Side side = stage.job.sides[0];
  const uint32_t bytes = stage.job.bytes, count = stage.job.count;
  const device::WaitLimit limit = LimitFor<A>(stage);
  device::SendQueue<A, Sharing, Cooperation> queue(side.queue, cooperation);
  const uint32_t last_flags = self.last ? mlx5::kCqeAlways : 0;
  device::Posted posted{};
  const uint64_t begin = A::NowNs();
  for (uint32_t i = 0; i < count && posted.status.ok(); i += kBatch) {
    const uint64_t first = uint64_t{i} * self.all + self.number * kBatch;
    if constexpr (kBatch == 1) {
      posted = queue.Post(WriteOf(side, bytes, first), limit, last_flags);
    } else {
      auto batch = queue.Begin(kBatch, limit);
      for (uint32_t j = 0; j < kBatch; ++j)
        static_cast<void>(batch.Add(WriteOf(side, bytes, first + j), j + 1 < kBatch ? 0 : last_flags));
      posted = batch.Submit();
    }
  }
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  if (self.last) stage.spans[self.block] = {begin, A::NowNs()};
  Conclude<A>(stage, status);
}

/// Refills the sources and clears the targets with `all` threads.
WARPVERBS_DEVICE void Prepare(const Job& job, uint32_t number, uint32_t all) {
  for (const Side& side : job.sides) {
    for (uint64_t word = number; word < kDataBytes / 8; word += all) {
      side.source[word] = WordOf(job.seed, word);
      side.target[word] = 0;
    }
    if (number == 0) side.target[kDataBytes / 8] = 0;
  }
}

/// Counts the wrong words with `all` threads.
template <arch::Arch A>
WARPVERBS_DEVICE void Verify(Stage& stage, uint32_t number, uint32_t all) {
  uint64_t wrong = 0;
  for (const Side& side : stage.job.sides) {
    for (uint64_t word = number; word < kDataBytes / 8; word += all)
      wrong += side.target[word] != (word < side.expected_words ? WordOf(stage.job.seed, word) : 0);
    if (number == 0) wrong += side.target[kDataBytes / 8] != side.expected_signal;
  }
  if (wrong == 0) return;
  uint64_t sum = A::Load(&stage.report.wrong);
  for (uint64_t seen; (seen = A::CompareSwap(&stage.report.wrong, sum, sum + wrong)) != sum;) sum = seen;
}

}  // namespace warpverbs::bench
