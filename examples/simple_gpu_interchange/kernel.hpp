// The kernel and what it is given. The same source runs on a GPU and on threads of a CPU.
#pragma once

#include "warpverbs/device/send_queue.hpp"

/// By value to the kernel; all it points to is mapped for the processor that runs it.
struct Job {
  warpverbs::device::QueueView queue;
  warpverbs::device::LocalMemory source;
  warpverbs::device::RemoteMemory target;
  uint8_t value;
};

/// What the kernel found. A kernel that never ran leaves a failure.
struct Outcome {
  warpverbs::device::Status status{.code = warpverbs::device::Code::kPending};
  uint64_t right_bytes = 0;
};

/// @tparam Team  the threads that run this together: Rank(), Size(), Sync()
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

  const auto* const target = reinterpret_cast<const uint8_t*>(job.target.addr);
  uint64_t right = 0;
  for (uint32_t i = team.Rank(); i < job.source.bytes; i += team.Size()) right += target[i] == job.value;
  uint64_t sum = A::Load(&outcome.right_bytes);
  for (uint64_t seen; (seen = A::CompareSwap(&outcome.right_bytes, sum, sum + right)) != sum;) sum = seen;
}
