#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "endpoint/endpoint_impl.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/detail/completion.hpp"
#include "warpverbs/host/error.hpp"

/// Errors that an endpoint's queues report.
namespace warpverbs::inline v0_2::host {

using arch::Cpu;

/// Returns the first error on the shared ring that no poster has consumed yet; 0: none.
uint64_t Endpoint::Impl::WaitingError() const {
  if (!completions_) return 0;
  const device::CompletionRingControl& ring = completions_->ring().control();
  const auto consumer = [&ring] { return Cpu::Load(&ring.consumer); };
  return FirstError(ring.cq, OldestOnRing(ring.cq, consumer(), consumer), qpn());
}

/// Returns the send queue's most specific error, whether or not a poster has seen it.
///
/// Only reads: no atomic operation of the host is atomic to all GPUs.
uint64_t Endpoint::Impl::SendError() const {
  uint64_t word = Cpu::Load(&host_words().error);
  const auto consider = [&word](uint64_t other) {
    if (device::ErrorRank(other) > device::ErrorRank(word)) word = other;
  };
  std::vector<std::byte> copy;
  if (has_own_ring()) {
    consider(ErrorAtEnd(ReadRing(CompletionView(), copy)));
    return word;
  }
  const uint64_t waiting = WaitingError();
  // Read last: includes what posters have consumed from the shared ring in the meantime.
  const size_t newest = completions_ ? layout_.control + offsetof(device::QueueControl, cqe) : layout_.cqes;
  const std::byte* const tail = memory_.Read(newest + mlx5::kCqeTailOffset, sizeof(arch::CqeTail), copy);
  const arch::CqeTail cqe = Cpu::LoadCqeTail(reinterpret_cast<const uint8_t*>(tail));
  if (device::IsError(cqe)) consider(device::ErrorWord(cqe));
  consider(waiting);
  return word;
}

uint64_t Endpoint::Impl::ReceiveError() const {
  if (!receive_cq_) return 0;
  std::vector<std::byte> copy;
  return ErrorAtEnd(ReadRing(ReceiveView().cq, copy));
}

/// Returns what the queues' completions and the events report; empty: nothing.
std::optional<QueueError> Endpoint::Impl::ReportedError() const {
  uint64_t word = SendError();
  const uint64_t received = ReceiveError();
  const bool receiving = device::ErrorRank(received) > device::ErrorRank(word);
  if (receiving) word = received;
  std::optional<Event> event = watch_ ? watch_->Cause() : std::nullopt;
  if (word == 0 && !event) return std::nullopt;
  const device::Status status = device::ErrorStatus(word);
  return QueueError{.qpn = qpn(),
                    .peer = peer_,
                    .cq_mode = cq_mode(),
                    .receiving = receiving,
                    .syndrome = status.syndrome,
                    .vendor_syndrome = status.vendor_syndrome,
                    .opcode = status.opcode,
                    .wqe_index = status.wqe_index,
                    .event = std::move(event),
                    .disconnected = disconnected_};
}

/// Returns whether the firmware says that the queue pair is in its error state.
bool Endpoint::Impl::HasStopped() const {
  try {
    return State() == mlx5::QpState::kError;
  } catch (const Error&) {
    return false;  // the device may be removed, and the caller is about to report another error
  }
}

std::optional<QueueError> Endpoint::Impl::LastError() const {
  std::optional<QueueError> error = ReportedError();
  // Asked after the state, too: Disconnect() may have stopped the queue pair meanwhile.
  if (!error && peer_ && !disconnected_ && HasStopped() && !disconnected_) {
    // Looks again: a work request may have failed since, or its completion is with a poster that drains.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    error = ReportedError();
    if (!error) {
      error = QueueError{.qpn = qpn(), .peer = peer_, .cq_mode = cq_mode(), .stopped = true};
    }
  }
  if (error) PublishFailure();
  return error;
}

}  // namespace warpverbs::inline v0_2::host
