// The kernel of two processes that write to each other in rounds. The same source runs on a GPU and on
// threads of a CPU.
#pragma once

#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/device/raw_send_queue.hpp"
#include "warpverbs/device/signal.hpp"

/// By value to the kernel; all it points to is mapped for the processor that runs it.
struct Conversation {
  warpverbs::device::QueueView queue;
  warpverbs::device::CqView completions;
  warpverbs::device::LocalMemory source;
  warpverbs::device::RemoteMemory target;  ///< the peer's two buffers, one behind the other: rounds alternate
  warpverbs::device::RemoteMemory signal;  ///< the peer's word that counts rounds
  const uint8_t* arrived;                  ///< this side's two buffers
  const uint64_t* signalled;               ///< this side's word
  uint64_t rounds;
  uint64_t patience_ns;  ///< for each wait
  uint8_t value;         ///< of the first byte that this side writes
  uint8_t peer_value;
};

/// What the kernel found. A kernel that never ran leaves a failure.
struct Report {
  warpverbs::device::Status status{.code = warpverbs::device::Code::kPending};
  uint64_t completions = 0;  ///< seen, each once and in the order of their writes
  uint64_t strays = 0;       ///< completions that were not the next
  uint64_t wrong_bytes = 0;
};

/// Byte `index` of a round: no two neighbours, pages or rounds are alike.
WARPVERBS_HOST_DEVICE constexpr uint8_t ByteOf(uint8_t value, uint64_t round, uint64_t index) {
  return static_cast<uint8_t>(value + 13 * (round - 1) + 7 * index + (index >> 8));
}

/// Writes a buffer in pieces and takes the completion of each.
template <warpverbs::arch::Arch A>
class PieceWriter {
 public:
  WARPVERBS_DEVICE PieceWriter(const Conversation& job, Report& report)
      : job_(job), report_(report), ring_(job.queue), completions_(job.completions) {}

  /// Writes the source to the buffer of this round, then tells the peer the round.
  WARPVERBS_DEVICE warpverbs::device::Status Put(uint64_t round) {
    constexpr uint64_t kPieceBytes = 4096;
    constexpr uint32_t kPiecesPerDoorbell = 32;
    const uint64_t bytes = job_.source.bytes, buffer = job_.target.addr + round % 2 * bytes;
    for (uint64_t at = 0; at < bytes;) {
      warpverbs::mlx5::Be64 doorbell{};
      for (uint32_t pieces = 0; pieces < kPiecesPerDoorbell && at < bytes; ++pieces) {
        const uint64_t piece = bytes - at < kPieceBytes ? bytes - at : kPieceBytes;
        doorbell = ring_.PostWrite(posted_++, {buffer + at, job_.target.rkey},
                                   {job_.source.addr + at, piece, job_.source.lkey});
        at += piece;
      }
      if (at == bytes) doorbell = ring_.PostWriteInline(posted_++, job_.signal, round);
      ring_.UpdateSendDbrRecord(posted_);
      ring_.RingDoorbell(doorbell);
      const warpverbs::device::Status status = TakeCompletions();
      if (!status.ok()) return status;
    }
    return {};
  }

  /// Looks for completions that nothing was posted for.
  WARPVERBS_DEVICE void ExpectNoMore() {
    if (completions_.PollCqOnce().code != warpverbs::device::Code::kPending) ++report_.strays;
  }

 private:
  WARPVERBS_DEVICE warpverbs::device::Status TakeCompletions() {
    for (; taken_ != posted_; ++taken_) {
      const auto status = completions_.PollCq({.deadline_ns = A::NowNs() + job_.patience_ns});
      if (!status.ok()) return status;
      const bool next = status.wqe_index == static_cast<uint16_t>(taken_);
      ++(next ? report_.completions : report_.strays);
    }
    completions_.UpdateCqDbrRecord();
    return {};
  }

  const Conversation& job_;
  Report& report_;
  warpverbs::device::RawSendQueue<A> ring_;
  warpverbs::device::CompletionRing<A> completions_;
  uint32_t posted_ = 0, taken_ = 0;
};

/// Writes to the peer and checks what the peer writes, round by round.
///
/// A side writes round n + 2 over round n only when the peer's round n + 1 has come, so the peer has checked
/// round n.
///
/// @tparam Team  the threads that run this together: Rank(), Size(), Sync()
template <warpverbs::arch::Arch A, class Team>
WARPVERBS_DEVICE void Converse(const Team& team, const Conversation& job, Report& report) {
  namespace device = warpverbs::device;
  auto* const source = reinterpret_cast<uint8_t*>(job.source.addr);
  const uint64_t bytes = job.source.bytes;
  PieceWriter<A> writer(job, report);
  uint64_t wrong = 0;
  for (uint64_t round = 1; round <= job.rounds; ++round) {
    for (uint64_t i = team.Rank(); i < bytes; i += team.Size()) source[i] = ByteOf(job.value, round, i);
    team.Sync();
    if (team.Rank() == 0) {
      report.status = writer.Put(round);
      if (report.status.ok()) {
        report.status = device::WaitSignal<A>(job.signalled, device::Compare::kGreaterOrEqual, round,
                                              {.deadline_ns = A::NowNs() + job.patience_ns});
      }
    }
    team.Sync();
    if (!report.status.ok()) return;
    const uint8_t* const arrived = job.arrived + round % 2 * bytes;
    for (uint64_t i = team.Rank(); i < bytes; i += team.Size())
      wrong += arrived[i] != ByteOf(job.peer_value, round, i);
  }
  if (team.Rank() == 0) writer.ExpectNoMore();
  uint64_t sum = A::Load(&report.wrong_bytes);
  for (uint64_t seen; (seen = A::CompareSwap(&report.wrong_bytes, sum, sum + wrong)) != sum;) sum = seen;
}
