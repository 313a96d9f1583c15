#include "wire/dc_target.hpp"

#include <algorithm>

#include "core/hca.hpp"
#include "core/limits.hpp"
#include "wire/address_table.hpp"

namespace softhca {
namespace {

/// Returns the index of the port's GID that a frame was sent to.
uint8_t LocalGidIndex(const QueuePair& target, const Flow& flow) {
  const auto& gids = PortOf(target).config().gids;
  const auto found = std::find_if(gids.begin(), gids.end(), [&](const GidEntry& entry) {
    return entry.gid == flow.destination && entry.version == flow.version;
  });
  return found == gids.end() ? target.attributes.path.local_gid_index
                             : static_cast<uint8_t>(found - gids.begin());
}

/// The cast is safe: a responder's channel is made here.
ConnectionChannel& ResponderChannel(const QueuePair& responder) {
  return static_cast<ConnectionChannel&>(*responder.channel);
}

}  // namespace

const char* DcTargetChannel::OnRequest(const Packet& packet, const Flow& flow) {
  if (target_.dc_target.drained) return "the DC target is drained";
  if (packet.dc.access_key != target_.config.dc_access_key) {
    Refuse(packet, flow);
    return nullptr;
  }
  const Initiator initiator{flow.source, flow.local ? flow.local->source : 0, packet.dc.source_qpn};
  const auto found = responders_.find(initiator);
  const bool known = found != responders_.end();
  if (known && packet.dc.connection < found->second.connection) return "earlier DC connection";
  const bool current = known && packet.dc.connection == found->second.connection;
  Responder& responder = current ? found->second : Open(initiator, packet, flow);
  responder.last_use = ++uses_;
  if (!Listens(*responder.qp)) return "failed DC connection";
  Packet request = packet;
  request.service = PacketService::kRc;
  ConnectionChannel& channel = ResponderChannel(*responder.qp);
  channel.packets_pending = true;
  channel.EnlistIfBusy();
  channel.responder.OnRequest(request);
  return nullptr;
}

/// Makes a responder for the initiator that a request comes from, at the request's place in the connection.
std::unique_ptr<QueuePair> DcTargetChannel::MakeResponder(const Packet& packet, const Flow& flow) {
  auto qp = std::make_unique<QueuePair>();
  qp->hca = target_.hca;
  qp->qpn = target_.qpn;
  qp->serves_dc_target = true;
  qp->config = target_.config;
  qp->config.service = mlx5::ServiceType::kRc;
  qp->config.on_event = {};  // errors of a connection are not the target's
  qp->state = mlx5::QpState::kRtr;
  qp->attributes = target_.attributes;
  qp->attributes.remote_qpn = packet.dc.source_qpn;
  qp->attributes.max_reads_in = 1u << limits::kLogReads;
  AddressPath& path = qp->attributes.path;
  path.grh = flow.grh;
  path.remote_gid = flow.source;
  if (flow.local) {
    path.remote_lid = flow.local->source;
    path.service_level = flow.local->service_level;
  }
  path.remote_mac = flow.source_mac;
  path.local_gid_index = LocalGidIndex(target_, flow);
  qp->receives = target_.receives;
  qp->srq = target_.srq;
  qp->receive_cq = target_.receive_cq;
  qp->next_receive_psn = packet.dc.start_psn;
  return qp;
}

DcTargetChannel::Responder& DcTargetChannel::Open(const Initiator& initiator, const Packet& packet,
                                                  const Flow& flow) {
  auto qp = MakeResponder(packet, flow);
  qp->channel = std::make_unique<ConnectionChannel>(*qp, sink_, busy_);
  const auto before = responders_.find(initiator);
  if (before !=
      responders_.end()) {  // its receive, if the initiator stopped within a message, serves the next
    qp->open_receive = std::exchange(before->second.qp->open_receive, {});
  } else {
    MakeRoom();
  }
  Responder& responder = responders_[initiator];
  responder = {packet.dc.connection, 0, std::move(qp)};
  return responder;
}

/// Refuses a request with a wrong key. The NAK names the connection's oldest unacknowledged packet: no packet
/// of the connection is accepted.
void DcTargetChannel::Refuse(const Packet& packet, const Flow& flow) {
  ++target_.dc_target.key_violations;
  const auto qp = MakeResponder(packet, flow);
  Packet nak{.op = PacketOp::kAcknowledge, .dest_qpn = packet.dc.source_qpn, .psn = packet.dc.start_psn};
  nak.ack = {aeth::kNakRemoteAccess, 0};
  sink_.Send(*qp, nak, {});
  if (target_.config.on_event) target_.config.on_event(QpEvent::kDctKeyViolation);
}

/// Forgets the connection that was used least recently, if there are as many as a target may have. If its
/// initiator goes on, a new responder continues where the old one stopped.
void DcTargetChannel::MakeRoom() {
  if (responders_.size() < size_t{1} << limits::kLogDctConnections) return;
  const auto idle = [](const auto& entry) { return !entry.second.qp->open_receive; };
  auto oldest = responders_.end();
  for (auto entry = responders_.begin(); entry != responders_.end(); ++entry) {
    if (!idle(*entry)) continue;
    if (oldest == responders_.end() || entry->second.last_use < oldest->second.last_use) oldest = entry;
  }
  if (oldest != responders_.end()) responders_.erase(oldest);
}

}  // namespace softhca
