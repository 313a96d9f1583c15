#include <algorithm>
#include <cstddef>
#include <utility>

#include "endpoint/endpoint_impl.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/detail/completion.hpp"

/// What has failed at an endpoint, as its queues tell.
namespace warpverbs::inline v0_2::host {

using arch::Cpu;

/// The first error that no poster has taken from the ring yet.
uint64_t Endpoint::Impl::WaitingError() const {
  if (!has_ring()) return 0;
  if (completions_) {
    const device::CompletionRingControl& ring = completions_->ring().control();
    return FirstError(ring.cq, static_cast<uint32_t>(Cpu::Load(&ring.consumer)), qpn());
  }
  const uint64_t consumer = memory_.Load(layout_.ring + offsetof(device::CompletionRingControl, consumer));
  std::vector<std::byte> copy;
  return FirstError(Look(CompletionView(), copy), static_cast<uint32_t>(consumer), qpn());
}

/// What tells most of a failure of the send queue: what a poster has seen, or else what no poster has looked
/// for. Changes nothing: no host has an atomic operation that all GPUs respect.
uint64_t Endpoint::Impl::SendError() const {
  uint64_t word = Cpu::Load(&host_words().error);
  const auto consider = [&word](uint64_t other) {
    if (device::ErrorRank(other) > device::ErrorRank(word)) word = other;
  };
  const uint64_t waiting = WaitingError();
  // Looked at last, it has what was taken from the ring meanwhile.
  const size_t newest = has_ring() ? layout_.control + offsetof(device::QueueControl, cqe) : layout_.cqes;
  std::vector<std::byte> copy;
  const std::byte* const tail = memory_.Look(newest + mlx5::kCqeTailOffset, sizeof(arch::CqeTail), copy);
  const arch::CqeTail cqe = Cpu::LoadCqeTail(reinterpret_cast<const uint8_t*>(tail));
  if (device::IsError(cqe)) consider(device::ErrorWord(cqe));
  consider(waiting);
  return word;
}

uint64_t Endpoint::Impl::ReceiveError() const {
  if (!receive_cq_) return 0;
  std::vector<std::byte> copy;
  return ErrorAtEnd(Look(ReceiveView().cq, copy));
}

std::optional<QueueError> Endpoint::Impl::LastError() const {
  uint64_t word = SendError();
  const uint64_t received = ReceiveError();
  const bool receiving = device::ErrorRank(received) > device::ErrorRank(word);
  if (receiving) word = received;
  std::optional<Event> event = watch_ ? watch_->Cause() : std::nullopt;
  if (word == 0 && !event) return std::nullopt;
  if (!disconnected_) TellPeers(device::PeerState::kFailed);
  const device::Status status = device::ErrorStatus(word);
  return QueueError{.qpn = qpn(),
                    .peer = peer_,
                    .cq_mode = has_ring() ? CqMode::kRing : CqMode::kCollapsed,
                    .receiving = receiving,
                    .syndrome = status.syndrome,
                    .vendor_syndrome = status.vendor_syndrome,
                    .opcode = status.opcode,
                    .wqe_index = status.wqe_index,
                    .event = std::move(event),
                    .disconnected = disconnected_};
}

}  // namespace warpverbs::inline v0_2::host
