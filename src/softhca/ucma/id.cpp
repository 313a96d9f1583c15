#include "ucma/id.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "ucma/device.hpp"
#include "uverbs/errors.hpp"
#include "wire/frame.hpp"

namespace softhca::ucma {
namespace {

using uverbs::Errno;

constexpr uint32_t kMaxWaiting = 1024;
constexpr size_t kHeader = cm::IpHeader::kBytes;
constexpr uint32_t kDatagramQkey = 0x01234567;  ///< RDMA_UDP_QKEY of librdmacm

[[noreturn]] void Refuse(const char* why) { throw Errno(EINVAL, why); }

[[noreturn]] void RefusePort(const PortClaim& claim, const IpPort& address) {
  throw Errno(claim.conflict(), "port " + std::to_string(address.port) + " is taken");
}

cm::IpAddress ToIpAddress(const Gid& gid) {
  cm::IpAddress ip = gid;
  if (IsIpv4(gid)) std::fill_n(ip.begin(), 12, uint8_t{0});
  return ip;
}

Gid ToGid(const cm::IpAddress& ip, bool ipv6) {
  Gid gid = ip;
  if (!ipv6) {
    std::fill_n(gid.begin(), 10, uint8_t{0});
    gid[10] = gid[11] = 0xff;
  }
  return gid;
}

/// Returns the program's private data, preceded by the header if one is given.
std::vector<uint8_t> PrivateData(const rdma_ucm_conn_param& param, size_t max_bytes,
                                 const std::optional<cm::IpHeader>& header = {}) {
  const size_t start = header ? kHeader : 0;
  if (start + param.private_data_len > max_bytes) Refuse("the private data exceeds the message");
  std::vector<uint8_t> data(start + param.private_data_len);
  std::copy_n(param.private_data, param.private_data_len, data.begin() + static_cast<ptrdiff_t>(start));
  if (header) cm::Write(*header, data);
  return data;
}

cm::Offer ToOffer(const rdma_ucm_conn_param& param, uint32_t psn, std::span<const uint8_t> private_data) {
  constexpr uint8_t kMaxRetries = 7;
  return {.qpn = param.qp_num,
          .psn = psn,
          .responder_resources = param.responder_resources,
          .initiator_depth = param.initiator_depth,
          .retry_count = std::min(param.retry_count, kMaxRetries),
          .rnr_retry_count = std::min(param.rnr_retry_count, kMaxRetries),
          .flow_control = param.flow_control != 0,
          .srq = param.srq != 0,
          .private_data = private_data};
}

EventKind KindOf(cm::Event::Kind kind) {
  using Kind = cm::Event::Kind;
  switch (kind) {
    case Kind::kReply:
      return EventKind::kConnectResponse;
    case Kind::kEstablished:
      return EventKind::kEstablished;
    case Kind::kRejected:
      return EventKind::kRejected;
    case Kind::kUnreachable:
      return EventKind::kUnreachable;
    case Kind::kDisconnected:
      return EventKind::kDisconnected;
    default:
      return EventKind::kTimewaitExit;
  }
}

uint32_t RandomPsn() {
  static thread_local std::mt19937 random{std::random_device{}()};
  return static_cast<uint32_t>(random()) & 0xffffff;
}

}  // namespace

Id::Id(const Config& config) : config_(config), psn_(RandomPsn()) {}

Id::~Id() {
  config_.device->LeaveAll(*this);
  cm::ConnectionManager& manager = config_.device->manager();
  if (connection_ != nullptr) manager.Release(*connection_);
  if (query_ != nullptr) manager.Release(*query_);
  manager.StopListening(*this);
}

std::optional<Gid> Id::OwnGid() const {
  if (!local_ || !route_ || local_->ip != route_->source()) return {};
  return local_->ip;
}

Families Id::FamiliesOf(const IpPort& address) const {
  return only_own_family_ || IsIpv4(address.ip) ? Families::kOwn : Families::kBoth;
}

void Id::Bind(const IpPort& address) {
  if (state_ != State::kIdle) Refuse("the id has an address already");
  const auto own = FindOwn(config_.device->devices(), address);
  if (!own) throw Errno(EADDRNOTAVAIL, "no port that is up has that address");
  local_ = address;
  if (!address.IsWildcard()) route_ = own;
  if (address.port == 0) {
    claim_ = PortClaim::TakeAny(config_.space, address, FamiliesOf(address));
  } else {
    claim_ = PortClaim::Take(config_.space, address.port, address, FamiliesOf(address));
    if (claim_.port() == 0 && !reuses_address_) {
      local_.reset();
      route_.reset();
      RefusePort(claim_, address);
    }
  }
  if (claim_.port() != 0) local_->port = claim_.port();
  state_ = State::kBound;
}

void Id::ResolveAddress(const std::optional<IpPort>& source, const IpPort& destination) {
  if (source && state_ == State::kIdle) Bind(*source);
  if (state_ != State::kIdle && state_ != State::kBound) Refuse("the id has a destination already");
  remote_ = destination;
  if (destination.IsWildcard()) remote_->ip = LoopbackAddress(IsIpv4(destination.ip));
  UpdateRoute();
  IpPort local = local_.value_or(IpPort{});
  if (local.IsWildcard()) local.ip = SourceAddress(*route_, *remote_);
  if (local.port == 0) {
    // Peers know connections by address and port.
    claim_ = PortClaim::TakeAny(config_.space, local, FamiliesOf(local));
    local.port = claim_.port();
  }
  local_ = local;
  state_ = State::kAddressResolved;
  Report(MakeEvent(EventKind::kAddressResolved, 0));
}

void Id::UpdateRoute() {
  const Devices& devices = config_.device->devices();
  const auto own = FindOwn(devices, *remote_);
  // If no program listens, this process itself rejects the request.
  const Gid destination = FindPeer(config_.space, *remote_).value_or(own ? own->source() : remote_->ip);
  const auto way = FindRoute(devices, route_, destination);
  if (!way) throw Errno(ENODEV, "no port that is up reaches that address");
  route_ = way;
}

bool Id::KnowsPeer() const { return !remote_ || FindPeer(config_.space, *remote_).has_value(); }

void Id::ResolveRoute() {
  if (state_ != State::kAddressResolved) Refuse("the id's destination is not resolved");
  state_ = State::kRouteResolved;
  Report(MakeEvent(EventKind::kRouteResolved, 0));
}

void Id::Listen(uint32_t backlog) {
  constexpr Gid kAny{};
  if (state_ == State::kIdle) Bind({kAny});
  if (state_ != State::kBound) Refuse("the id is already in use");
  if (claim_.port() == 0) RefusePort(claim_, *local_);
  auto gid = OwnGid();
  if (!gid) {
    const auto own = FindOwn(config_.device->devices(), {kAny});
    if (!own) throw Errno(EADDRNOTAVAIL, "no port is up");
    gid = own->source();
  }
  announcement_ = Announce(config_.space, *local_, FamiliesOf(*local_), *gid);
  config_.device->manager().Listen(ServiceId(config_.space, local_->port), *this);
  backlog_ = backlog == 0 ? kMaxWaiting : std::min(backlog, kMaxWaiting);
  state_ = State::kListening;
}

void Id::Connect(const rdma_ucm_conn_param& param) {
  if (state_ != State::kRouteResolved) Refuse("the id's route is not resolved");
  UpdateRoute();  // a program of this host may listen by now
  cm::ConnectionManager& manager = config_.device->manager();
  const uint64_t service = ServiceId(config_.space, remote_->port);
  const size_t room = IsDatagram() ? sizeof(cm::SidrReq::private_data) : sizeof(cm::Req::private_data);
  const cm::IpHeader header{.ipv6 = !IsIpv4(remote_->ip),
                            .source_port = local_->port,
                            .source = ToIpAddress(local_->ip),
                            .destination = ToIpAddress(remote_->ip)};
  const auto private_data = PrivateData(param, room, header);
  state_ = State::kConnecting;
  if (IsDatagram()) {
    query_ = &manager.MakeQuery(*route_);
    query_->set_user(this);
    query_->Ask(service, private_data);
  } else {
    connection_ = &manager.MakeConnection(*route_);
    connection_->set_user(this);
    connection_->Request(service, ToOffer(param, psn_, private_data));
  }
}

void Id::Accept(const rdma_ucm_conn_param& param, uint64_t uid) {
  bool fits = false;
  if (query_ != nullptr) {
    const auto private_data = PrivateData(param, sizeof(cm::SidrRep::private_data));
    const uint32_t qkey = param.qkey != 0 ? param.qkey : kDatagramQkey;
    fits = query_->Answer(cm::SidrStatus::kValid, param.qp_num, qkey, private_data);
  } else if (connection_ != nullptr && param.valid == 0) {
    fits = connection_->Confirm();
  } else if (connection_ != nullptr) {
    const auto private_data = PrivateData(param, sizeof(cm::Rep::private_data));
    fits = connection_->Reply(ToOffer(param, psn_, private_data));
  }
  if (!fits) Refuse("no request is pending");
  if (param.valid != 0) config_.uid = uid;
}

void Id::Reject(const rdma_ucm_reject& cmd) {
  constexpr auto kConsumer = static_cast<uint16_t>(cm::RejectReason::kConsumer);
  const std::span private_data(cmd.private_data, cmd.private_data_len);
  const size_t room = query_ != nullptr ? sizeof(cm::SidrRep::private_data) : sizeof(cm::Rej::private_data);
  if (private_data.size() > room) Refuse("the private data exceeds the message");
  const bool fits =
      query_ != nullptr
          ? query_->Answer(cm::SidrStatus::kRejected, 0, 0, private_data)
          : connection_ != nullptr &&
                connection_->Reject(cmd.reason != 0 ? uint16_t{cmd.reason} : kConsumer, private_data);
  if (!fits) Refuse("no request is pending");
}

void Id::Disconnect() {
  if (connection_ == nullptr) Refuse("the id has no connection");
  connection_->Disconnect();  // Linux allows it for a closed connection, too
}

void Id::NoteEstablished() {
  if (connection_ == nullptr || !connection_->NoteEstablished()) Refuse("the id has no connection");
}

void Id::CountEvent(const Event& event) {
  ++events_reported_;
  if (event.request != 0) ++backlog_;
}

Event Id::MakeEvent(EventKind kind, int32_t status) const {
  Event event{.id = config_.number};
  event.response.uid = config_.uid;
  event.response.id = config_.number;
  event.response.event = static_cast<uint32_t>(kind);
  event.response.status = static_cast<uint32_t>(status);
  return event;
}

void Id::Report(const Event& event) {
  if (config_.uid != 0) config_.file->Push(event);
}

void Id::OnEvent(const cm::Event& event) {
  using Kind = cm::Event::Kind;
  Event report = MakeEvent(KindOf(event.kind), event.status);
  const bool has_data = event.kind == Kind::kReply || event.kind == Kind::kRejected || query_ != nullptr;
  Describe(report.response, has_data ? event.private_data : std::span<const uint8_t>{});
  Report(report);
}

bool Id::Matches(std::span<const uint8_t> private_data) const {
  const auto header = cm::ReadIpHeader(private_data);
  // TakeRequest() refuses a request that names no address.
  if (!header) return true;
  if (!local_->IsWildcard()) return local_->ip == ToGid(header->destination, header->ipv6);
  return FamiliesOf(*local_) == Families::kBoth || IsIpv4(local_->ip) != header->ipv6;
}

bool Id::OnRequest(cm::Connection& connection, const cm::Req& req) {
  return !IsDatagram() && TakeRequest(connection, req.private_data);
}

bool Id::OnRequest(cm::ServiceQuery& query, const cm::SidrReq& req) {
  return IsDatagram() && TakeRequest(query, req.private_data);
}

bool Id::TakeRequest(cm::Transaction& transaction, std::span<const uint8_t> private_data) {
  const auto header = cm::ReadIpHeader(private_data);
  if (!header || backlog_ == 0) return false;
  --backlog_;
  Id& request = config_.device->MakeId(*config_.file, 0, config_.space);
  request.state_ = State::kConnecting;
  request.route_ = transaction.route();
  request.local_ = {ToGid(header->destination, header->ipv6), local_->port};
  request.remote_ = {ToGid(header->source, header->ipv6), header->source_port};
  request.connection_ = dynamic_cast<cm::Connection*>(&transaction);
  request.query_ = dynamic_cast<cm::ServiceQuery*>(&transaction);
  transaction.set_user(&request);
  Event report = MakeEvent(EventKind::kConnectRequest, 0);
  report.request = request.number();
  report.response.id = request.number();
  request.Describe(report.response, private_data.subspan(kHeader));
  Report(report);
  return true;
}

void Id::Describe(rdma_ucm_event_resp& response, std::span<const uint8_t> private_data) const {
  if (query_ != nullptr) {
    rdma_ucm_ud_param& ud = response.param.ud;
    ud.qp_num = query_->qpn();
    ud.qkey = query_->qkey();
    Describe(ud.ah_attr);
    std::copy(private_data.begin(), private_data.end(), ud.private_data);
    ud.private_data_len = static_cast<uint8_t>(private_data.size());
    return;
  }
  const cm::Terms& terms = connection_->terms();
  rdma_ucm_conn_param& conn = response.param.conn;
  conn.qp_num = terms.remote_qpn;
  conn.srq = terms.peer_has_srq;
  conn.responder_resources = terms.responder_resources;
  conn.initiator_depth = terms.initiator_depth;
  conn.flow_control = terms.flow_control;
  conn.retry_count = terms.retry_count;
  conn.rnr_retry_count = terms.rnr_retry_count;
  std::copy(private_data.begin(), private_data.end(), conn.private_data);
  conn.private_data_len = static_cast<uint8_t>(private_data.size());
}

void Id::Describe(ib_uverbs_ah_attr& path) const {
  constexpr uint8_t kHopLimit = 64;
  path.is_global = 1;
  path.port_num = route_->port;
  std::copy(route_->destination.begin(), route_->destination.end(), path.grh.dgid);
  path.grh.sgid_index = route_->gid_index;
  path.grh.hop_limit = kHopLimit;
  path.grh.traffic_class = traffic_class_;
}

rdma_ucm_event_resp Id::DescribeGroup(const IpPort& group) const {
  constexpr uint32_t kMulticastQpn = 0xffffff;
  if (!IsDatagram()) Refuse("only ids for datagrams join multicast groups");
  if (!route_ || (state_ != State::kBound && state_ != State::kAddressResolved))
    Refuse("the id has no device yet, or is in use");
  if (group.IsWildcard()) Refuse("the group has no address");
  rdma_ucm_event_resp response{};
  rdma_ucm_ud_param& ud = response.param.ud;
  ud.qp_num = kMulticastQpn;
  ud.qkey = kDatagramQkey;
  Describe(ud.ah_attr);
  std::copy(group.ip.begin(), group.ip.end(), ud.ah_attr.grh.dgid);
  return response;
}

ib_uverbs_qp_attr Id::QueuePairAttributes(uint32_t state) const {
  if (!route_) Refuse("the id has no device yet");
  ib_uverbs_qp_attr attributes{};
  attributes.qp_state = state;
  attributes.qp_attr_mask = IBV_QP_STATE;
  attributes.port_num = route_->port;
  if (state == IBV_QPS_INIT) {
    attributes.qp_attr_mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    attributes.qp_attr_mask |= IsDatagram() ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    attributes.qkey = kDatagramQkey;
    if (connection_ != nullptr) {
      attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
      if (connection_->terms().responder_resources != 0)
        attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    }
    return attributes;
  }
  if (connection_ == nullptr) Refuse("the id has no connection");
  const cm::Terms& terms = connection_->terms();
  if (state == IBV_QPS_RTR) {
    attributes.qp_attr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    Describe(attributes.ah_attr);
    attributes.path_mtu = static_cast<uint32_t>(terms.mtu);
    attributes.dest_qp_num = terms.remote_qpn;
    attributes.rq_psn = psn_;
    attributes.max_dest_rd_atomic = terms.responder_resources;
  } else if (state == IBV_QPS_RTS) {
    attributes.qp_attr_mask |=
        IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    attributes.sq_psn = terms.send_psn;
    attributes.timeout = ack_timeout_.value_or(terms.ack_timeout);
    attributes.retry_cnt = terms.retry_count;
    attributes.rnr_retry = terms.rnr_retry_count;
    attributes.max_rd_atomic = terms.initiator_depth;
  } else {
    Refuse("connections do not use that queue pair state");
  }
  return attributes;
}

rdma_ucm_query_route_resp Id::Describe() const {
  rdma_ucm_query_route_resp resp{};
  if (local_) WriteIpPort(*local_, &resp.src_addr);
  if (remote_) WriteIpPort(*remote_, &resp.dst_addr);
  if (!route_) return resp;
  const DeviceConfig& device = route_->hca->config();
  resp.node_guid = mlx5::ToBe64(device.guid).raw;
  resp.port_num = route_->port;
  ib_user_path_rec& path = resp.ib_route[0];
  std::copy_n(route_->source().begin(), sizeof path.sgid, path.sgid);
  std::copy_n(route_->destination.begin(), sizeof path.dgid, path.dgid);
  path.pkey = 0xffff;
  if (state_ != State::kRouteResolved && state_ != State::kConnecting) return resp;
  resp.num_paths = 1;
  constexpr uint8_t kExactly = 2, kRate400Gbps = 21, kPacketLifetime = 14;
  path.reversible = 1;
  path.hop_limit = 64;
  path.traffic_class = traffic_class_;
  path.numb_path = 1;
  path.mtu_selector = kExactly;
  path.mtu = static_cast<uint32_t>(device.mtu);
  path.rate_selector = kExactly;
  path.rate = kRate400Gbps;
  path.packet_life_time_selector = kExactly;
  path.packet_life_time = kPacketLifetime;
  return resp;
}

}  // namespace softhca::ucma
