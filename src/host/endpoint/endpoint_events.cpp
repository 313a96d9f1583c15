#include <cstddef>
#include <utility>

#include "endpoint/endpoint_impl.hpp"
#include "events/event.hpp"
#include "log/log.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

/// Events from outside an endpoint's queues, and the end of its connection.
namespace warpverbs::inline v0_2::host {

using arch::Cpu;
using device::PeerState;

void Endpoint::Impl::ListenToEvents() {
  if (config_.peers != nullptr) {
    peer_state_ = std::make_unique<PeerTable::Attachment>(*config_.peers, config_.peer_rank);
  }
  if (config_.events == nullptr) return;
  WatchConfig watch{.device = &device_,
                    .port = local_.port.number,
                    .qpn = qpn(),
                    .abort = &host_words().abort,
                    .on_abort = [this] { PublishFailure(); },
                    .on_clear = [this] { PublishState(PeerState::kDisconnected); }};
  watch.subjects.push_back({qp_.object(), {kWqCatastrophicEvent, kWqInvalidRequestEvent, kWqAccessEvent}});
  if (cq_) watch.subjects.push_back({cq_->object(), {kCqErrorEvent}});
  if (completions_) {
    const std::shared_ptr<const CompletionQueue>& ring = completions_->cq();
    watch.subjects.push_back({ring->object(), {kCqErrorEvent}, ring});
  }
  if (receive_cq_) watch.subjects.push_back({receive_cq_->object(), {kCqErrorEvent}});
  watch_.emplace(*config_.events, std::move(watch));
}

void Endpoint::Impl::PublishState(PeerState state) const {
  if (peer_state_) peer_state_->Set(state);
}

/// After Disconnect(), nothing is a failure. It may be called meanwhile, and then what it publishes holds.
void Endpoint::Impl::PublishFailure() const {
  if (disconnected_) return;
  PublishState(PeerState::kFailed);
  if (disconnected_) PublishState(PeerState::kDisconnected);
}

void Endpoint::Impl::Disconnect() {
  if (!peer_) return;
  disconnected_ = true;
  qp_.ToError();
  PublishState(PeerState::kDisconnected);
  Log(LogLevel::kInfo, [&] { return "disconnected " + name(); });
}

void Endpoint::Impl::Abort() { Cpu::StoreRelease(&host_words().abort, uint64_t{1}); }

std::optional<Event> Endpoint::Impl::LastEvent() const { return watch_ ? watch_->Newest() : std::nullopt; }

CompletionAlarm Endpoint::Impl::AnnounceSends(CompletionChannel& channel, uint64_t cookie) {
  if (!has_own_ring()) {
    throw Error("arm", "the completions of QP " + std::to_string(qpn()), "they are collapsed or shared",
                "Create the endpoint with cq_mode = CqMode::kRing");
  }
  return Announce(*cq_, layout_.cq_dbr, channel, cookie);
}

CompletionAlarm Endpoint::Impl::AnnounceReceives(CompletionChannel& channel, uint64_t cookie) {
  if (!receive_cq_) {
    throw Error("arm", "the receives of QP " + std::to_string(qpn()), "it has no receive queue",
                "Create the endpoint with a receive_depth");
  }
  return Announce(*receive_cq_, layout_.receive_cq_dbr, channel, cookie);
}

CompletionAlarm Endpoint::Impl::Announce(const CompletionQueue& queue, size_t dbr, CompletionChannel& channel,
                                         uint64_t cookie) {
  if (on_gpu()) {
    throw Error("arm", "the completions of QP " + std::to_string(qpn()), "they are in GPU memory",
                "Create the endpoint with Placement::kHost");
  }
  channel.Subscribe(queue.object(), cookie);
  return {At<uint32_t>(dbr + offsetof(mlx5::CqDbr, arm)), uar_->cq_doorbell(), uar_->mapping(), queue.cqn()};
}

void Endpoint::Impl::AnnounceFailures(CompletionChannel& channel, uint64_t cookie) const {
  if (cq_) channel.SubscribeToFailure(cq_->object(), cookie);
  if (completions_) channel.SubscribeToFailure(completions_->cq()->object(), cookie);
  if (receive_cq_) channel.SubscribeToFailure(receive_cq_->object(), cookie);
}

std::string Endpoint::Impl::DescribeEvents() const {
  return watch_ ? "those of the port and the device set the abort word; " + watch_->note()
                : std::string("not watched");
}

}  // namespace warpverbs::inline v0_2::host
