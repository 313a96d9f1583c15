// The kernel of both processes: it writes to the peer and verifies what the peer writes, round by round. One
// block runs it, of GPU threads or of CPU threads.
#pragma once

#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/device/raw_send_queue.hpp"
#include "warpverbs/device/signal.hpp"

/// The kernel's argument, passed by value. The processor that runs the kernel reaches all memory it names.
struct Job {
  warpverbs::device::QueueView queue;
  warpverbs::device::CqView completions;
  warpverbs::device::LocalMemory source;
  warpverbs::device::RemoteMemory
      target;  ///< two buffers of the peer, adjacent; rounds alternate between them
  warpverbs::device::RemoteMemory signal;  ///< word of the peer that counts rounds
  const uint8_t* arrived;                  ///< two buffers of this side, adjacent
  const uint64_t* signalled;               ///< word of this side that counts rounds
  uint64_t rounds;
  uint64_t timeout_ns;  ///< longest time of each wait
  uint8_t value;        ///< value of the first byte that this side writes
  uint8_t peer_value;   ///< value of the first byte that the peer writes
};

/// The kernel's result. A kernel that never ran leaves a failure.
struct Report {
  warpverbs::device::Status status{.code = warpverbs::device::Code::kPending};
  uint64_t completions = 0;  ///< completions that came once and in the order of their writes
  uint64_t strays = 0;       ///< completions that came twice or out of order
  uint64_t wrong_bytes = 0;
};

/// Returns byte `index` of a round. Neighbours, pages and rounds all differ.
WARPVERBS_HOST_DEVICE constexpr uint8_t ByteOf(uint8_t value, uint64_t round, uint64_t index) {
  return static_cast<uint8_t>(value + 13 * (round - 1) + 7 * index + (index >> 8));
}

/// Writes a buffer in pieces and takes the completion of each.
template <warpverbs::arch::Arch A>
class PieceWriter {
 public:
  WARPVERBS_DEVICE PieceWriter(const Job& job, Report& report)
      : job_(job), report_(report), queue_(job.queue), completions_(job.completions) {}

  /// Writes the source to the round's buffer, then the round's number to the peer's word.
  WARPVERBS_DEVICE warpverbs::device::Status Write(uint64_t round) {
    constexpr uint64_t kPieceBytes = 4096;
    constexpr uint32_t kPiecesPerDoorbell = 32;
    const uint64_t bytes = job_.source.bytes, buffer = job_.target.addr + round % 2 * bytes;
    for (uint64_t offset = 0; offset < bytes;) {
      warpverbs::mlx5::Be64 doorbell{};
      for (uint32_t pieces = 0; pieces < kPiecesPerDoorbell && offset < bytes; ++pieces) {
        const uint64_t piece = bytes - offset < kPieceBytes ? bytes - offset : kPieceBytes;
        doorbell = queue_.PostWrite(posted_++, {buffer + offset, job_.target.rkey},
                                    {job_.source.addr + offset, piece, job_.source.lkey});
        offset += piece;
      }
      if (offset == bytes) doorbell = queue_.PostWriteInline(posted_++, job_.signal, round);
      queue_.UpdateSendDbrRecord(posted_);
      queue_.RingDoorbell(doorbell);
      const warpverbs::device::Status status = TakeCompletions();
      if (!status.ok()) return status;
    }
    return {};
  }

  /// Counts a completion that no write has caused.
  WARPVERBS_DEVICE void ExpectNoMore() {
    if (completions_.PollCqOnce().code != warpverbs::device::Code::kPending) ++report_.strays;
  }

 private:
  WARPVERBS_DEVICE warpverbs::device::Status TakeCompletions() {
    for (; taken_ != posted_; ++taken_) {
      const auto status = completions_.PollCq({.deadline_ns = A::NowNs() + job_.timeout_ns});
      if (!status.ok()) return status;
      const bool next = status.wqe_index == static_cast<uint16_t>(taken_);
      ++(next ? report_.completions : report_.strays);
    }
    completions_.UpdateCqDbrRecord();
    return {};
  }

  const Job& job_;
  Report& report_;
  warpverbs::device::RawSendQueue<A> queue_;
  warpverbs::device::CompletionRing<A> completions_;
  uint32_t posted_ = 0, taken_ = 0;
};

/// Writes to the peer and verifies what the peer writes, round by round.
///
/// A side starts round n + 2, which overwrites round n, only after the peer's round n + 1 has arrived: by
/// then the peer has verified round n.
template <warpverbs::arch::Arch A>
WARPVERBS_DEVICE void RunRounds(const Job& job, Report& report) {
  namespace device = warpverbs::device;
  auto* const source = reinterpret_cast<uint8_t*>(job.source.addr);
  const uint64_t bytes = job.source.bytes;
  PieceWriter<A> writer(job, report);
  uint64_t wrong = 0;
  for (uint64_t round = 1; round <= job.rounds; ++round) {
    for (uint64_t i = A::BlockRank(); i < bytes; i += A::BlockThreads())
      source[i] = ByteOf(job.value, round, i);
    A::SyncBlock();
    if (A::BlockRank() == 0) {
      report.status = writer.Write(round);
      if (report.status.ok()) {
        report.status = device::WaitSignal<A>(job.signalled, device::Compare::kGreaterOrEqual, round,
                                              {.deadline_ns = A::NowNs() + job.timeout_ns});
      }
    }
    A::SyncBlock();
    if (!report.status.ok()) return;
    const uint8_t* const arrived = job.arrived + round % 2 * bytes;
    for (uint64_t i = A::BlockRank(); i < bytes; i += A::BlockThreads())
      wrong += arrived[i] != ByteOf(job.peer_value, round, i);
  }
  if (A::BlockRank() == 0) writer.ExpectNoMore();
  uint64_t sum = A::Load(&report.wrong_bytes);
  for (uint64_t seen; (seen = A::CompareSwap(&report.wrong_bytes, sum, sum + wrong)) != sum;) sum = seen;
}

/// Says whether this program contains kernels for NVIDIA GPUs.
bool HasCudaKernels();

/// Runs RunRounds() on a GPU, while the calling thread sleeps.
///
/// @param scope  reach of the kernel's releases
/// @errors  std::runtime_error: the kernel cannot be launched, or fails
Report RunOnCuda(int gpu, warpverbs::arch::Scope scope, const Job& job);
