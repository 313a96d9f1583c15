// The kernel. One block runs it, of GPU threads or of CPU threads: only the arch differs.
#pragma once

#include "warpverbs/device/send_queue.hpp"

/// The kernel's argument, passed by value. The processor that runs the kernel reaches all memory it names.
struct Job {
  warpverbs::device::QueueView queue;      ///< send queue of the sender
  warpverbs::device::LocalMemory source;   ///< memory to fill and to write from
  warpverbs::device::RemoteMemory target;  ///< memory of the peer
  uint8_t value;                           ///< value of every byte
};

/// Fills the source, writes it to the target by RDMA and waits until the write is complete.
template <warpverbs::arch::Arch A>
WARPVERBS_DEVICE void FillAndWrite(const Job& job, warpverbs::device::Status& result) {
  namespace device = warpverbs::device;
  constexpr uint64_t kTimeoutNs = 10'000'000'000;

  // Fill: all threads of the block, each its share of the bytes.
  auto* const source = reinterpret_cast<uint8_t*>(job.source.addr);
  for (uint64_t i = A::BlockRank(); i < job.source.bytes; i += A::BlockThreads()) source[i] = job.value;
  A::SyncBlock();
  if (A::BlockRank() != 0) return;

  // Post: one thread writes a work queue entry and rings the NIC's doorbell. Exclusive: no other thread
  // posts.
  device::SendQueue<A, device::Exclusive> queue(job.queue);
  const device::Posted posted = queue.Post(device::Write(job.target, job.source));

  // Wait: the ticket is done when the peer's NIC has acknowledged the write. Every wait has a deadline.
  const device::WaitLimit limit{.deadline_ns = A::NowNs() + kTimeoutNs};
  result = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
}

/// Says whether this program contains kernels for NVIDIA GPUs.
bool HasCudaKernels();

/// Runs FillAndWrite() on a GPU, while the calling thread sleeps.
///
/// @errors  std::runtime_error: the kernel cannot be launched, or fails
warpverbs::device::Status RunOnCuda(int gpu, const Job& job);
