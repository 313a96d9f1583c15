#include "wire/wire_network.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "core/packets.hpp"
#include "dma/copy.hpp"
#include "wire/address_block.hpp"
#include "wire/dc_target.hpp"
#include "wire/media/socket.hpp"

namespace softhca {
namespace {

using mlx5::QpState;
using mlx5::ServiceType;

constexpr size_t kReceiveBurst = 64;
constexpr uint32_t kManagementQpn = 1;
constexpr uint32_t kMulticastQpn = 0xffffff;
constexpr uint32_t kManagementQkey = 0x80010000;

/// The cast is safe: only the network creates channels, and a DC target, which has another type, never sends.
ConnectionChannel* ChannelOf(const QueuePair& qp) {
  return static_cast<ConnectionChannel*>(qp.channel.get());
}

/// Returns the service of the packets that a queue pair receives. A DC initiator receives RC's responses.
PacketService ServiceOf(const QueuePair& qp) {
  if (qp.config.xrc != XrcRole::kNone) return PacketService::kXrc;
  switch (qp.config.service) {
    case ServiceType::kUc:
      return PacketService::kUc;
    case ServiceType::kUd:
      return PacketService::kUd;
    case ServiceType::kDct:
      return PacketService::kDc;
    default:
      return PacketService::kRc;
  }
}

/// Returns the UDP source port: the program's if it has set one, otherwise one that spreads connections.
///
/// @source  Linux v6.1, include/rdma/ib_verbs.h, rdma_get_udp_sport(), rdma_calc_flow_label()
uint16_t SourcePort(const Flow& flow, uint32_t local_qpn, uint32_t remote_qpn) {
  if (flow.source_port != 0) return flow.source_port;
  uint64_t label = flow.flow_label;
  if (label == 0) {
    label = uint64_t{local_qpn} * remote_qpn;
    label ^= label >> 20;
    label ^= label >> 40;
  }
  constexpr uint32_t kFirst = 0xc000;  // first port for private use
  return static_cast<uint16_t>(((label & 0x3fff) ^ (label >> 14 & 0x3f)) | kFirst);
}

void Observe(const QueuePair& qp, Direction direction, const Packet& packet, uint64_t payload_bytes) {
  if (Observer* const observer = qp.hca->observer()) observer->OnPacket(qp, direction, packet, payload_bytes);
}

/// Copies the part of a message that goes into a packet.
///
/// @return  false if its memory is gone
bool Read(const Gather& from, std::span<uint8_t> to) {
  uint64_t skip = from.offset;
  for (const Bytes piece : from.pieces) {
    if (to.empty()) break;
    if (skip >= piece.size()) {
      skip -= piece.size();
      continue;
    }
    const Bytes source = piece.subspan(skip, std::min(piece.size() - skip, to.size()));
    const Bytes target = to.first(source.size());
    if (!Copy(std::span(&target, 1), std::span(&source, 1))) return false;
    to = to.subspan(source.size());
    skip = 0;
  }
  return WaitForCopies();
}

/// Names the engine of a port of InfiniBand, which a path may reach without a GID.
Gid EngineOf(uint16_t lid) {
  Gid name{};
  name[14] = static_cast<uint8_t>(lid >> 8);
  name[15] = static_cast<uint8_t>(lid);
  return name;
}

/// Returns the names of the devices' engine: the GIDs of their ports, on InfiniBand their LIDs.
std::vector<Gid> EngineNames(const std::vector<Hca*>& devices) {
  std::vector<Gid> gids;
  for (const Hca* hca : devices) {
    for (const PortConfig& port : hca->config().ports) {
      if (port.lid != 0) {
        gids.push_back(EngineOf(port.lid));
        continue;
      }
      for (const GidEntry& entry : port.gids) {
        if (std::find(gids.begin(), gids.end(), entry.gid) == gids.end()) gids.push_back(entry.gid);
      }
    }
  }
  return gids;
}

}  // namespace

WireNetwork::WireNetwork(std::vector<Hca*> devices, WireOptions options)
    : addresses_(std::move(devices)),
      options_(std::move(options)),
      message_link_(addresses_.devices()),
      frame_(kMaxFrameBytes) {
  if (options_.open_at_once) OpenMedium();
}

void WireNetwork::OpenMedium() {
  if (medium_ != nullptr || !options_.open_medium) return;
  auto medium = options_.open_medium();
  Descriptor waiting(epoll_create1(EPOLL_CLOEXEC));
  Watch(waiting, *medium);
  medium_ = std::move(medium);
  medium_->ReportLosses([this](const char* reason, uint64_t frames) { Drop(reason, frames); });
  waiting_ = std::move(waiting);
  poll_descriptor_ = waiting_.get();
  if (engine_ != 0) Announce();
}

/// Makes a frame that arrives at the medium wake the engine. Descriptors that are watched already stay so.
void WireNetwork::Watch(const Descriptor& waiting, const Medium& medium) {
  std::vector<int> descriptors;
  medium.AddDescriptors(descriptors);
  bool waits = static_cast<bool>(waiting);
  for (const int descriptor : descriptors) {
    epoll_event event{.events = EPOLLIN, .data = {}};
    waits = waits && (epoll_ctl(waiting.get(), EPOLL_CTL_ADD, descriptor, &event) == 0 || errno == EEXIST);
  }
  // No frame would wake the engine, and it would receive none after its first sleep.
  if (!waits) RefuseSocket("cannot wait for frames with epoll", "allow more descriptors (ulimit -n)");
}

void WireNetwork::FinishDatagrams(QueuePair& qp) {
  if (qp.config.service != ServiceType::kUd || qp.state != QpState::kRts) return;
  while (qp.doorbell_pending && SendDatagrams(qp, *this)) continue;
}

void WireNetwork::OnGroups() {
  std::set<Gid> groups;
  for (Hca* const hca : addresses_.devices()) {
    for (const auto& [qpn, qp] : hca->qps()) groups.insert(qp->groups.begin(), qp->groups.end());
  }
  if (!groups.empty()) OpenMedium();
  if (medium_ == nullptr) return;
  medium_->SetGroups(groups);
  Watch(waiting_, *medium_);
}

/// Tells peers which thread has the addresses.
void WireNetwork::Announce() {
  if (options_.unique_addresses) threads_.Announce(EngineNames(addresses_.devices()), engine_);
}

void WireNetwork::SetManagementAgent(ManagementAgent* agent) {
  if (agent != nullptr) OpenMedium();
  agent_ = agent;
}

bool WireNetwork::NeedsPackets(const QueuePair& qp) const {
  if (qp.config.service != ServiceType::kRc) return true;
  return !options_.direct || !addresses_.Find(qp.attributes.path);
}

void WireNetwork::OnTransition(QueuePair& qp) {
  if (!softhca::Listens(qp) || qp.channel != nullptr || !NeedsPackets(qp)) return;
  OpenMedium();
  PacketSink& sink = *this;
  if (qp.config.service == ServiceType::kDct) {
    qp.channel = std::make_unique<DcTargetChannel>(qp, sink, busy_);
  } else if (qp.config.service != ServiceType::kUd) {
    qp.channel = std::make_unique<ConnectionChannel>(qp, sink, busy_);
  }
}

bool WireNetwork::Run(QueuePair& qp, uint64_t now_ns) {
  if (qp.state == QpState::kError) {
    qp.channel.reset();
    const bool flushed = qp.doorbell_pending && messages_.Run(qp, now_ns);
    return messages_.FlushReceives(qp, now_ns) || flushed;
  }
  if (qp.state != QpState::kRts || !NeedsPackets(qp)) return messages_.Run(qp, now_ns);
  if (qp.config.service == ServiceType::kUd) return SendDatagrams(qp, *this);
  ConnectionChannel& channel = *ChannelOf(qp);
  const bool worked = channel.requester.Run(now_ns, false);  // Poll() runs the timers, after it has received
  channel.EnlistIfBusy();
  return worked;
}

bool WireNetwork::Poll(uint64_t now_ns) {
  if (engine_ == 0) {
    engine_ = gettid();
    if (medium_ != nullptr) Announce();
  }
  if (medium_ == nullptr) return false;
  now_ns_ = now_ns;
  bool worked = false;
  size_t received = 0;
  // A timer needs the frames that have arrived: the process may have been stopped after a quiet sleep.
  if (!quiet_.exchange(false) || NextNs() <= now_ns) {
    received = medium_->Receive(kReceiveBurst, [this](std::span<const uint8_t> frame) { OnFrame(frame); });
  }
  // After a stop of the process every timer is due, and the responses may be behind other frames.
  constexpr int kMostFullPolls = 64;
  full_polls_ = received < kReceiveBurst ? 0 : full_polls_ + 1;
  worked = received != 0;
  worked |= RunChannels(full_polls_ % kMostFullPolls == 0);
  if (agent_ != nullptr && agent_->NextNs() <= now_ns) agent_->OnTime(now_ns);
  medium_->Flush();
  return worked;
}

void WireNetwork::OnStall(uint64_t ns) {
  for (ConnectionChannel* const channel : *busy_) channel->requester.OnStall(ns);
}

std::optional<uint64_t> WireNetwork::PeerStalledAt(const QueuePair& from) {
  const AddressPath& path = from.attributes.path;
  if (!options_.unique_addresses || addresses_.Find(path)) return {};  // this engine is running
  const bool infiniband = addresses_.link() == mlx5::PortType::kInfiniBand;
  const Mac mac = infiniband ? address_block::MacOfLid(path.remote_lid) : path.remote_mac;
  const Gid engine = infiniband ? EngineOf(path.remote_lid) : path.remote_gid;
  // A forked child of a peer that is gone keeps its socket, which nobody empties.
  const bool waits = medium_ != nullptr && medium_->HasUnsentTo(mac) && threads_.MayRun(engine, now_ns_);
  if (waits) return kStoppedPeer;
  return threads_.StalledAt(engine, now_ns_);
}

/// Runs the channels with packets to handle or a timer due: no doorbell announces them.
///
/// @param may_time_out  false: frames wait to be received, so no timer runs
bool WireNetwork::RunChannels(bool may_time_out) {
  bool worked = false;
  for (ConnectionChannel* const channel : *busy_) {
    if (!softhca::Listens(channel->qp)) continue;
    const bool packets_pending = channel->packets_pending;
    if (packets_pending) channel->packets_pending = channel->responder.Flush();
    worked |= channel->packets_pending;
    const bool times_out = may_time_out && channel->requester.NextNs() <= now_ns_;
    if (channel->qp.state == QpState::kRts && (packets_pending || times_out)) {
      worked |= channel->requester.Run(now_ns_, may_time_out);
    }
  }
  ConnectionChannel::DropIdle(*busy_);
  return worked;
}

uint64_t WireNetwork::NextNs() const {
  if (medium_ == nullptr) return UINT64_MAX;
  uint64_t next = medium_->NextNs();
  if (agent_ != nullptr) next = std::min(next, agent_->NextNs());
  for (const ConnectionChannel* const channel : *busy_) {
    if (channel->qp.state == QpState::kRts) next = std::min(next, channel->requester.NextNs());
  }
  return next;
}

void WireNetwork::Wait(uint64_t limit_ns) {
  pollfd descriptor{.fd = poll_descriptor_, .events = POLLIN, .revents = 0};
  const timespec limit{.tv_sec = static_cast<time_t>(limit_ns / 1'000'000'000),
                       .tv_nsec = static_cast<long>(limit_ns % 1'000'000'000)};
  quiet_ = ppoll(&descriptor, 1, &limit, nullptr) == 0;
}

bool WireNetwork::Send(const QueuePair& from, Packet packet, const Gather& payload) {
  if (from.config.xrc != XrcRole::kNone) packet.service = PacketService::kXrc;
  return SendAlong(from.attributes.path, from, packet, payload);
}

bool WireNetwork::SendDatagram(const QueuePair& from, const Destination& to, Packet packet,
                               const Gather& payload) {
  return SendAlong(to.path, from, packet, payload);
}

bool WireNetwork::SendAlong(const AddressPath& path, const QueuePair& from, Packet& packet,
                            const Gather& payload) {
  std::optional<Flow> flow = addresses_.FlowOf(PortOf(from), path);
  if (!flow || !PortOf(from).config().up) {
    Drop("the path or its link is down");
    return true;
  }
  flow->source_port = SourcePort(*flow, from.qpn, packet.dest_qpn);
  packet.pkey = PkeyOf(from);
  Observe(from, Direction::kSent, packet, payload.bytes);
  return SendFrame(*flow, packet, payload);
}

void WireNetwork::SendMad(Hca& hca, uint8_t port, uint8_t gid_index, const Gid& destination, const Mad& mad) {
  AddressPath path{.grh = true, .remote_gid = destination, .remote_mac = GuessMac(destination)};
  path.local_gid_index = gid_index;
  std::optional<Flow> flow = addresses_.FlowOf({&hca, port}, path);
  if (!flow || !hca.config().ports.at(port - 1).up) return Drop("the path or its link is down");
  flow->source_port = SourcePort(*flow, kManagementQpn, kManagementQpn);
  Packet packet{.service = PacketService::kUd, .op = PacketOp::kSendOnly, .dest_qpn = kManagementQpn};
  packet.psn = mad_psn_++ & 0xffffff;
  packet.datagram = {.qkey = kManagementQkey, .source_qpn = kManagementQpn};
  Mad copy = mad;
  const Bytes piece(copy);
  SendFrame(*flow, packet, {.pieces = std::span(&piece, 1), .bytes = static_cast<uint32_t>(mad.size())});
  // At once: the program may end after its command, and the peer must learn of its rejection or disconnection.
  if (medium_ != nullptr) medium_->Flush();
}

bool WireNetwork::SendFrame(const Flow& flow, const Packet& packet, const Gather& payload) {
  if (medium_ == nullptr) return true;
  std::array<uint8_t, kMaxPacketHeaderBytes> headers;
  const size_t header_bytes = EncodeHeaders(packet, payload.bytes, headers);
  const uint32_t pad = PadBytes(payload.bytes);
  const size_t transport_bytes = header_bytes + payload.bytes + pad + kIcrcBytes;
  const size_t start = WriteFrameHeaders(flow, transport_bytes, frame_);
  const std::span<uint8_t> frame(frame_.data(), start + transport_bytes + FrameTrailerBytes(flow));
  uint8_t* to = frame.data() + start;
  to = std::copy_n(headers.data(), header_bytes, to);
  if (!Read(payload, {to, payload.bytes})) return false;
  std::fill_n(to + payload.bytes, pad, uint8_t{0});
  SealFrame(frame, LinkOf(flow));
  medium_->Send(frame);
  return true;
}

void WireNetwork::OnFrame(std::span<const uint8_t> bytes) {
  const std::optional<Frame> frame = ParseFrame(bytes, addresses_.link());
  if (!frame) return Drop("malformed frame");
  const bool to_group = IsToGroup(frame->flow);
  const std::optional<Port> port = addresses_.FindReceiver(frame->flow);
  if (!to_group && (!port || !port->config().up)) return Drop("unknown address");
  if (!IsSealed(*frame)) return Drop(frame->flow.local ? "wrong CRC" : "wrong ICRC");
  const std::optional<Packet> packet = Decode(frame->transport.first(frame->transport.size() - kIcrcBytes));
  if (!packet) return Drop("malformed frame");
  to_group ? DeliverToGroup(*packet, *frame) : Deliver(*port, *packet, *frame);
}

void WireNetwork::Drop(const char* reason, uint64_t frames) const {
  Observer* const observer = addresses_.devices().front()->observer();
  if (observer != nullptr) observer->OnDrop(reason, frames);
}

void WireNetwork::Deliver(const Port& port, const Packet& packet, const Frame& frame) {
  if (packet.dest_qpn == kManagementQpn) {
    Mad mad;
    const bool is_mad = agent_ != nullptr && packet.service == PacketService::kUd &&
                        packet.datagram.qkey == kManagementQkey && packet.payload.size() == mad.size();
    if (!is_mad) return Drop("unknown queue pair");
    std::copy(packet.payload.begin(), packet.payload.end(), mad.begin());
    return agent_->OnMad(*port.hca, port.number, frame.flow, mad);
  }
  QueuePair* const qp = port.hca->FindQp(packet.dest_qpn);
  const bool listens = qp != nullptr && softhca::Listens(*qp) && PortOf(*qp) == port;
  if (!listens || packet.service != ServiceOf(*qp)) return Drop("unknown queue pair");
  if (!SharePartition(packet.pkey, PkeyOf(*qp))) return Drop("another partition's P_Key");
  if (qp->config.service == ServiceType::kUd) {
    Observe(*qp, Direction::kReceived, packet, packet.payload.size());
    return OnDatagram(*qp, packet, frame);
  }
  if (qp->config.service == ServiceType::kDct) return DeliverToDcTarget(*qp, packet, frame.flow);
  ConnectionChannel* const channel = ChannelOf(*qp);
  if (channel == nullptr) return Drop("unknown queue pair");
  if (!IsFromPeer(*qp, frame.flow)) return Drop("not from the peer");
  Observe(*qp, Direction::kReceived, packet, packet.payload.size());
  channel->packets_pending = true;
  channel->EnlistIfBusy();
  if (qp->config.xrc != XrcRole::kNone && IsRequest(packet) != (qp->config.xrc == XrcRole::kTarget))
    return Drop("unknown queue pair");
  if (IsRequest(packet)) {
    channel->responder.OnRequest(packet);
  } else if (qp->state == QpState::kRts) {
    channel->requester.OnResponse(packet, now_ns_);
  }
}

void WireNetwork::DeliverToDcTarget(QueuePair& target, const Packet& packet, const Flow& flow) {
  if (target.channel == nullptr) return Drop("unknown queue pair");
  Observe(target, Direction::kReceived, packet, packet.payload.size());
  // The cast is safe: the network makes the channel of a DC target.
  const char* const dropped = static_cast<DcTargetChannel&>(*target.channel).OnRequest(packet, flow);
  if (dropped != nullptr) Drop(dropped);
}

/// Gives a datagram to each member of its group in this process. A frame to a group without members is none
/// of this process's business.
void WireNetwork::DeliverToGroup(const Packet& packet, const Frame& frame) {
  if (packet.dest_qpn != kMulticastQpn) return Drop("unknown queue pair");
  const std::optional<Port> sender = addresses_.Find(frame.flow.source);
  for (Hca* const hca : addresses_.devices()) {
    for (const auto& [qpn, qp] : hca->qps()) {
      const bool member = qp->groups.contains(frame.flow.destination) && softhca::Listens(*qp);
      const bool own = sender && sender->hca == hca && packet.datagram.source_qpn == qpn;
      if (own && !qp->config.hears_itself) continue;
      if (!member || !PortOf(*qp).config().up || !SharePartition(packet.pkey, PkeyOf(*qp))) continue;
      Observe(*qp, Direction::kReceived, packet, packet.payload.size());
      OnDatagram(*qp, packet, frame);
    }
  }
}

/// Returns whether a frame comes from the queue pair's peer. Packets do not carry the sender's queue pair
/// number, so only the addresses can be checked.
bool WireNetwork::IsFromPeer(const QueuePair& qp, const Flow& flow) {
  const AddressPath& path = qp.attributes.path;
  if (flow.local && flow.local->source != path.remote_lid) return false;
  if (!flow.grh || !path.grh) return true;
  const GidEntry* const local = AddressTable::LocalGid(PortOf(qp), path);
  return local != nullptr && flow.version == local->version && flow.destination == local->gid &&
         flow.source == path.remote_gid;
}

}  // namespace softhca
