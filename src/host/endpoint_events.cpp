#include <utility>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/endpoint.hpp"

/// What an endpoint learns from outside its queues, and how its connection ends.
namespace warpverbs::host {

using arch::Cpu;
using device::PeerState;

void Endpoint::ListenToEvents() {
  if (config_.peers != nullptr) {
    peer_seat_ = std::make_unique<PeerTable::Seat>(*config_.peers, config_.peer_rank);
  }
  if (config_.events == nullptr) return;
  WatchConfig watch{.device = &device_,
                    .port = local_.port.number,
                    .qpn = qpn(),
                    .abort = &host_words().abort,
                    .on_abort = [this] { TellPeers(PeerState::kFailed); }};
  watch.subjects.push_back({qp_.object(), {kWqCatastrophicEvent, kWqInvalidRequestEvent, kWqAccessEvent}});
  if (cq_) watch.subjects.push_back({cq_->object(), {kCqErrorEvent}});
  if (receive_cq_) watch.subjects.push_back({receive_cq_->object(), {kCqErrorEvent}});
  watch_.emplace(*config_.events, std::move(watch));
}

void Endpoint::TellPeers(PeerState state) const {
  if (peer_seat_) peer_seat_->Set(state);
}

void Endpoint::Disconnect() {
  if (!peer_) return;
  disconnected_ = true;
  qp_.ToError();
  TellPeers(PeerState::kDisconnected);
}

void Endpoint::Abort() { Cpu::StoreRelease(&host_words().abort, uint64_t{1}); }

std::optional<Event> Endpoint::LastEvent() const { return watch_ ? watch_->Newest() : std::nullopt; }

std::string Endpoint::DescribeEvents() const {
  return watch_ ? "those of the port and the device reach the abort word; " + watch_->note()
                : std::string("nobody listens");
}

}  // namespace warpverbs::host
