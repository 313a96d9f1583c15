#include <bit>
#include <optional>

#include "core/limits.hpp"
#include "uverbs/devx.hpp"

namespace softhca::uverbs {

using namespace mlx5;  // NOLINT(google-build-using-namespace): all names below are fields

namespace {

/// The QP context in a mailbox; every command has it at the same offset.
struct QpContext {
  const Mailboxes& mail;

  template <class T>
  T Get(Field<T> field) const {
    return mail.Get(field.At(modify_qp_in::kQpc));
  }
  template <class T>
  T GetPath(Field<T> field) const {
    return Get(field.At(qpc::kPrimaryAddressPath));
  }
};
static_assert(modify_qp_in::kQpc == create_qp_in::kQpc && modify_qp_in::kQpc == query_qp_out::kQpc);

/// Checks what CREATE_QP asks for. `pm_state` must exclude an alternate path: 0 (ARMED) has one. RST2INIT_QP
/// does not look at it: Linux leaves it 0 there.
///
/// @source  rdma-core v50, providers/mlx5/qp.c and UCX v1.17, uct_ib_mlx5_devx_create_qp(): both set it;
/// Linux 6.1,
///          drivers/vdpa/mlx5/net/mlx5_vnet.c, alloc_inout()
void CheckNewQp(const QpContext& context) {
  CheckParameter(context.Get(qpc::kPmState) == PathMigration::kMigrated, "qpc.pm_state is not MIGRATED (3)");
  const ServiceType service = context.Get(qpc::kSt);
  CheckParameter(service == ServiceType::kRc || service == ServiceType::kDci,
                 "only reliable connections and DC initiators are implemented");
  CheckParameter(context.Get(qpc::kSendDbrMode) == 0, "queues without doorbell records are not supported");
  CheckParameter(context.Get(qpc::kTsFormat) != TimestampFormat::kRealTime,
                 "wall-clock timestamps are not supported");
  CheckParameter(context.Get(qpc::kDbrUmemValid),
                 "qpc.dbr_umem_valid is 0: the doorbell record is in no umem");
  CheckParameter(context.mail.Get(create_qp_in::kWqUmemValid),
                 "wq_umem_valid is 0: the queues are in no umem");
  CheckParameter(context.Get(qpc::kLogSqSize) <= limits::kLogQueueDepth &&
                     context.Get(qpc::kLogRqSize) <= limits::kLogQueueDepth,
                 "a queue is too deep");
}

/// Places the receive queue before the send queue.
void PlaceQueues(const Mailboxes& mail, const QpContext& context, QpConfig& config) {
  const RqType type = context.Get(qpc::kRqType);
  if (type == RqType::kRegular) {
    config.receive.depth = 1u << context.Get(qpc::kLogRqSize);
    config.receive.stride = kSegmentBytes << context.Get(qpc::kLogRqStride);
  } else if (type == RqType::kSrq) {
    config.srqn = context.Get(qpc::kSrqnRmpnXrqn);
    mail.context.Owned(Kind::kSrq, config.srqn);
  } else {
    CheckParameter(type == RqType::kNone, "the receive queue type is unknown");
  }
  config.send_depth = context.Get(qpc::kNoSq) ? 0 : 1u << context.Get(qpc::kLogSqSize);
  const uint64_t receive_bytes = uint64_t{config.receive.depth} * config.receive.stride;
  const uint64_t bytes = receive_bytes + uint64_t{config.send_depth} * kWqebbBytes;
  const uint32_t ring_umem = mail.Get(create_qp_in::kWqUmemId);
  const uint32_t record_umem = context.Get(qpc::kDbrUmemId);
  const uint64_t ring_offset = mail.Get(create_qp_in::kWqUmemOffset);
  const uint64_t record_offset = context.Get(qpc::kDbrAddr);
  uint8_t* const queues = UmemMemory(mail.context, ring_umem, ring_offset, bytes, false);
  auto* const record =
      reinterpret_cast<QpDbr*>(UmemMemory(mail.context, record_umem, record_offset, sizeof(QpDbr), false));
  CheckAligned(queues, kWqebbBytes);
  CheckAligned(queues + receive_bytes, kWqebbBytes);
  CheckAligned(record, sizeof(QpDbr));
  config.receive.ring = queues;
  config.receive.dbr = &record->receive;
  config.send_ring = queues + receive_bytes;
  config.send_dbr = &record->send;
  config.umems = {ring_umem, record_umem};
}

AddressPath ReadPath(const QpContext& context) {
  AddressPath path;
  path.grh = context.GetPath(ads::kGrh);
  path.remote_lid = static_cast<uint16_t>(context.GetPath(ads::kRlid));
  path.local_gid_index = static_cast<uint8_t>(context.GetPath(ads::kSrcAddrIndex));
  path.hop_limit = static_cast<uint8_t>(context.GetPath(ads::kHopLimit));
  // RoCE has its own fields. Only the upper six bits of the traffic class count: the network marks the
  // others.
  const bool ethernet = IsEthernet(context.mail);
  path.traffic_class =
      static_cast<uint8_t>(ethernet ? context.GetPath(ads::kDscp) << 2 : context.GetPath(ads::kTclass));
  path.service_level =
      static_cast<uint8_t>(ethernet ? context.GetPath(ads::kEthPrio) : context.GetPath(ads::kSl));
  path.flow_label = context.GetPath(ads::kFlowLabel);
  path.udp_source_port = static_cast<uint16_t>(context.GetPath(ads::kUdpSport));
  constexpr uint32_t kGidWord = (modify_qp_in::kQpc + qpc::kPrimaryAddressPath + ads::kRgidRip.bit) / 32;
  std::memcpy(path.remote_gid.data(), context.mail.in.data() + kGidWord, path.remote_gid.size());
  const uint64_t mac = uint64_t{context.GetPath(ads::kRmac4732)} << 32 | context.GetPath(ads::kRmac310);
  for (uint32_t i = 0; i < path.remote_mac.size(); ++i)
    path.remote_mac[i] = static_cast<uint8_t>(mac >> (40 - 8 * i));
  // Ethernet always uses a GID and has no bit for it.
  path.grh |= ethernet;
  return path;
}

/// Reads the access rights of the peer: all of them for INIT, otherwise those that the mask names.
uint32_t ReadAccess(const QpContext& context, uint32_t before, uint32_t mask) {
  const bool atomics = context.Get(qpc::kRae) && context.Get(qpc::kAtomicMode) != AtomicMode::kNone;
  uint32_t access = before;
  const auto take = [&](uint32_t option, uint32_t right, bool granted) {
    if ((mask & option) != 0) access = granted ? access | right : access & ~right;
  };
  take(kOptRwe, kAccessRemoteWrite, context.Get(qpc::kRwe));
  take(kOptRre, kAccessRemoteRead, context.Get(qpc::kRre));
  take(kOptRae, kAccessRemoteAtomic, atomics);
  return access;
}

uint8_t ReadDepth(uint32_t log_depth) {
  CheckParameter(log_depth <= limits::kLogReads,
                 "more reads and atomics in flight than the device has resources for");
  return static_cast<uint8_t>(1u << log_depth);
}

void ReadReceiveSide(const QpContext& context, QpChange& change) {
  CheckParameter(context.Get(qpc::kLogMsgMax) <= context.mail.hca().config().log_max_message,
                 "the longest message exceeds the device's");
  change.log_max_message = static_cast<uint8_t>(context.Get(qpc::kLogMsgMax));
  change.path = ReadPath(context);
  change.mtu = context.Get(qpc::kMtu);
  change.remote_qpn = context.Get(qpc::kRemoteQpn);
  change.receive_psn = context.Get(qpc::kNextRcvPsn);
  change.max_reads_in = ReadDepth(context.Get(qpc::kLogRraMax));
  change.min_rnr_timer = static_cast<uint8_t>(context.Get(qpc::kMinRnrNak));
}

void ReadSendSide(const QpContext& context, QpChange& change) {
  change.ack_timeout = static_cast<uint8_t>(context.GetPath(ads::kAckTimeout));
  change.retry_count = static_cast<uint8_t>(context.Get(qpc::kRetryCount));
  change.rnr_retry = static_cast<uint8_t>(context.Get(qpc::kRnrRetry));
  change.send_psn = context.Get(qpc::kNextSendPsn);
  change.max_reads_out = ReadDepth(context.Get(qpc::kLogSraMax));
}

struct Transition {
  std::optional<QpState> from;  ///< required state; none: any
  QpState to;
};

Transition TransitionOf(CommandOpcode opcode) {
  switch (opcode) {
    case CommandOpcode::kRst2InitQp:
      return {QpState::kReset, QpState::kInit};
    case CommandOpcode::kInit2InitQp:
      return {QpState::kInit, QpState::kInit};
    case CommandOpcode::kInit2RtrQp:
      return {QpState::kInit, QpState::kRtr};
    case CommandOpcode::kRtr2RtsQp:
      return {QpState::kRtr, QpState::kRts};
    case CommandOpcode::kRts2RtsQp:
      return {QpState::kRts, QpState::kRts};
    case CommandOpcode::k2ErrQp:
      return {{}, QpState::kError};
    default:
      return {{}, QpState::kReset};
  }
}

void ModifyQp(const Mailboxes& mail, const Object& object) {
  const auto opcode = mail.Get(command_in::kOpcode);
  const auto [from, to] = TransitionOf(opcode);
  const QueuePair& qp = mail.hca().Qp(object.number);
  if (from && qp.state != *from) {
    throw CommandError(CommandStatus::kBadQpState,
                       "the queue pair is not in the state that the command requires");
  }
  QpChange change;
  if (from) {
    const QpContext context{mail};
    constexpr uint32_t kAll = kOptRre | kOptRae | kOptRwe | kOptPkeyIndex;
    const uint32_t mask = opcode == CommandOpcode::kRst2InitQp ? kAll : mail.Get(modify_qp_in::kOptParamMask);
    change.access = ReadAccess(context, qp.attributes.access, mask);
    if ((mask & kOptPkeyIndex) != 0)
      change.pkey_index = static_cast<uint16_t>(context.GetPath(ads::kPkeyIndex));
    if ((mask & kOptMinRnrNak) != 0)
      change.min_rnr_timer = static_cast<uint8_t>(context.Get(qpc::kMinRnrNak));
    if (*from == QpState::kReset) change.port = static_cast<uint8_t>(context.GetPath(ads::kVhcaPortNum));
    if (to == QpState::kRtr) ReadReceiveSide(context, change);
    if (*from == QpState::kRtr) ReadSendSide(context, change);
  }
  mail.hca().ModifyQp(object.number, to, change);
}

void WritePath(const Mailboxes& mail, const QpAttributes& attributes) {
  constexpr uint32_t kPlace = query_qp_out::kQpc + qpc::kPrimaryAddressPath;
  const AddressPath& path = attributes.path;
  const auto set = [&](auto field, auto value) { mail.Set(field.At(kPlace), value); };
  set(ads::kGrh, path.grh);
  set(ads::kPkeyIndex, attributes.pkey_index);
  set(ads::kRlid, path.remote_lid);
  set(ads::kAckTimeout, attributes.ack_timeout);
  set(ads::kSrcAddrIndex, path.local_gid_index);
  set(ads::kHopLimit, path.hop_limit);
  if (IsEthernet(mail)) {
    set(ads::kDscp, path.traffic_class >> 2);
    set(ads::kEthPrio, path.service_level & 7);
  } else {
    set(ads::kTclass, path.traffic_class);
    set(ads::kSl, path.service_level & 0xf);
  }
  set(ads::kFlowLabel, path.flow_label & 0xfffff);
  set(ads::kUdpSport, path.udp_source_port);
  set(ads::kVhcaPortNum, attributes.port);
  mail.SetMac(ads::kRmac4732.At(kPlace), ads::kRmac310.At(kPlace), path.remote_mac);
  std::memcpy(mail.out.data() + (kPlace + ads::kRgidRip.bit) / 32, path.remote_gid.data(),
              path.remote_gid.size());
}

uint32_t Log2(uint32_t value) { return value == 0 ? 0 : static_cast<uint32_t>(std::bit_width(value) - 1); }

void QueryQp(const Mailboxes& mail, const Object& object) {
  const QueuePair& qp = mail.hca().Qp(object.number);
  const QpAttributes& attributes = qp.attributes;
  const auto set = [&](auto field, auto value) { mail.Set(field.At(query_qp_out::kQpc), value); };
  set(qpc::kState, qp.state);
  set(qpc::kSt, qp.config.service);
  set(qpc::kPmState, PathMigration::kMigrated);
  set(qpc::kPd, qp.config.pdn);
  set(qpc::kMtu, attributes.mtu);
  set(qpc::kLogMsgMax, attributes.log_max_message);
  set(qpc::kLogRqSize, Log2(qp.config.receive.depth));
  set(qpc::kLogRqStride, Log2(qp.config.receive.stride / kSegmentBytes));
  set(qpc::kNoSq, qp.config.send_depth == 0);
  set(qpc::kLogSqSize, Log2(qp.config.send_depth));
  set(qpc::kUarPage, qp.config.uar_page);
  set(qpc::kUserIndex, qp.config.user_index);
  set(qpc::kRemoteQpn, attributes.remote_qpn);
  set(qpc::kLogSraMax, Log2(attributes.max_reads_out));
  set(qpc::kRetryCount, attributes.retry_count);
  set(qpc::kRnrRetry, attributes.rnr_retry);
  set(qpc::kNextSendPsn, qp.next_send_psn);
  set(qpc::kCqnSnd, qp.config.cqn_send);
  set(qpc::kLogRraMax, Log2(attributes.max_reads_in));
  set(qpc::kAtomicMode,
      (attributes.access & kAccessRemoteAtomic) != 0 ? AtomicMode::kUpTo8 : AtomicMode::kNone);
  set(qpc::kRre, (attributes.access & kAccessRemoteRead) != 0);
  set(qpc::kRwe, (attributes.access & kAccessRemoteWrite) != 0);
  set(qpc::kRae, (attributes.access & kAccessRemoteAtomic) != 0);
  set(qpc::kCdMaster, qp.config.cd_master);
  set(qpc::kMinRnrNak, attributes.min_rnr_timer);
  set(qpc::kNextRcvPsn, qp.next_receive_psn);
  set(qpc::kCqnRcv, qp.config.cqn_receive);
  set(qpc::kSrqnRmpnXrqn, qp.config.srqn);
  set(qpc::kHwSqWqebbCounter, qp.send_index & 0xffff);
  WritePath(mail, attributes);
}

constexpr ObjectCommand kModifies[] = {
    {CommandOpcode::kRst2InitQp, modify_qp_in::kBytes, kCommandOutBytes, ModifyQp},
    {CommandOpcode::kInit2InitQp, modify_qp_in::kBytes, kCommandOutBytes, ModifyQp},
    {CommandOpcode::kInit2RtrQp, modify_qp_in::kBytes, kCommandOutBytes, ModifyQp},
    {CommandOpcode::kRtr2RtsQp, modify_qp_in::kBytes, kCommandOutBytes, ModifyQp},
    {CommandOpcode::kRts2RtsQp, modify_qp_in::kBytes, kCommandOutBytes, ModifyQp},
    {CommandOpcode::k2ErrQp, kCommandHeaderBytes, kCommandOutBytes, ModifyQp},
    {CommandOpcode::k2RstQp, kCommandHeaderBytes, kCommandOutBytes, ModifyQp},
};

constexpr ObjectCommand kQueries[] = {
    {CommandOpcode::kQueryQp, kCommandHeaderBytes, query_qp_out::kBytes, QueryQp},
};

}  // namespace

std::unique_ptr<Object> CreateQpByDevx(const Mailboxes& mail) {
  const QpContext context{mail};
  CheckNewQp(context);
  QpConfig config;
  config.service = context.Get(qpc::kSt);
  config.pdn = context.Get(qpc::kPd);
  config.uar_page = context.Get(qpc::kUarPage);
  config.user_index = context.Get(qpc::kUserIndex);
  config.cd_master = context.Get(qpc::kCdMaster);
  config.cqn_send = context.Get(qpc::kCqnSnd);
  config.cqn_receive = context.Get(qpc::kCqnRcv);
  PlaceQueues(mail, context, config);
  mail.context.Owned(Kind::kPd, config.pdn);
  mail.context.Owned(Kind::kUar, config.uar_page);
  if (config.send_depth != 0) mail.context.Owned(Kind::kCq, config.cqn_send);
  if (config.receive.depth != 0 || config.srqn != 0) mail.context.Owned(Kind::kCq, config.cqn_receive);
  auto qp = std::make_unique<Object>(Kind::kQp, 0);
  qp->devx = true;
  config.on_event = [object = qp.get()](QpEvent event) {
    SendDevxEvent(*object, static_cast<uint8_t>(event));
  };
  qp->number = mail.hca().CreateQp(std::move(config));
  mail.Set(command_out::kObjectNumber, qp->number);
  return qp;
}

std::span<const ObjectCommand> ModifyQpCommands() { return kModifies; }
std::span<const ObjectCommand> QueryQpCommands() { return kQueries; }

}  // namespace softhca::uverbs
