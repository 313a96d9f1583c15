// The kernel and what it is given. The same source runs on a GPU and on threads of a CPU.
#pragma once

#include "warpverbs/device/send_queue.hpp"

/// By value to the kernel; all it points to is mapped for the processor that runs it.
struct Job {
  warpverbs::device::QueueView queue;
  warpverbs::device::LocalMemory source;
  warpverbs::device::RemoteMemory target;
  uint8_t value;
  bool reaches_target = true;  ///< who posts can look at it too
};

/// What the kernel found. A kernel that never ran leaves a failure.
struct Outcome {
  warpverbs::device::Status status{.code = warpverbs::device::Code::kPending};
  uint64_t right_bytes = 0;
};

/// Adds to `right` how many bytes have the value.
///
/// @tparam Team  the threads that run this together: Rank(), Size(), Sync()
template <warpverbs::arch::Arch A, class Team>
WARPVERBS_DEVICE void CountRight(const Team& team, const uint8_t* bytes, uint64_t count, uint8_t value,
                                 uint64_t& right) {
  uint64_t own = 0;
  for (uint64_t i = team.Rank(); i < count; i += team.Size()) own += bytes[i] == value;
  uint64_t sum = A::Load(&right);
  for (uint64_t seen; (seen = A::CompareSwap(&right, sum, sum + own)) != sum;) sum = seen;
}

template <warpverbs::arch::Arch A, class Team>
WARPVERBS_DEVICE void Interchange(const Team& team, const Job& job, Outcome& outcome) {
  auto* const source = reinterpret_cast<uint8_t*>(job.source.addr);
  for (uint32_t i = team.Rank(); i < job.source.bytes; i += team.Size()) source[i] = job.value;
  team.Sync();

  if (team.Rank() == 0) {
    constexpr uint64_t kPatienceNs = 10'000'000'000;
    warpverbs::device::SendQueue<A, warpverbs::device::Exclusive> queue(job.queue);
    const auto [status, ticket] = queue.Post(warpverbs::device::Write(job.target, job.source));
    outcome.status = status.ok() ? queue.Wait(ticket, {.deadline_ns = A::NowNs() + kPatienceNs}) : status;
    queue.Save();
  }
  team.Sync();

  if (!job.reaches_target) return;
  const auto* const target = reinterpret_cast<const uint8_t*>(job.target.addr);
  CountRight<A>(team, target, job.source.bytes, job.value, outcome.right_bytes);
}
