
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <iterator>

#include "core/limits.hpp"
#include "uverbs/method.hpp"

namespace softhca::uverbs {
namespace {

using mlx5::QpState;

QpState ToMlx5(uint8_t state) {
  switch (state) {
    case IBV_QPS_RESET:
      return QpState::kReset;
    case IBV_QPS_INIT:
      return QpState::kInit;
    case IBV_QPS_RTR:
      return QpState::kRtr;
    case IBV_QPS_RTS:
      return QpState::kRts;
    case IBV_QPS_SQD:
      return QpState::kSqDrained;
    case IBV_QPS_SQE:
      return QpState::kSqError;
    case IBV_QPS_ERR:
      return QpState::kError;
    default:
      throw Errno(EINVAL, "queue pair state " + std::to_string(state) + " does not exist");
  }
}

uint8_t ToVerbs(QpState state) {
  switch (state) {
    case QpState::kReset:
      return IBV_QPS_RESET;
    case QpState::kInit:
      return IBV_QPS_INIT;
    case QpState::kRtr:
      return IBV_QPS_RTR;
    case QpState::kRts:
      return IBV_QPS_RTS;
    case QpState::kSqDrained:
      return IBV_QPS_SQD;
    case QpState::kSqError:
      return IBV_QPS_SQE;
    case QpState::kError:
      return IBV_QPS_ERR;
  }
  return IBV_QPS_UNKNOWN;
}

AddressPath ReadPath(const ib_uverbs_qp_dest& from, const Engine& engine) {
  AddressPath path;
  path.grh = from.is_global != 0;
  std::copy_n(from.dgid, path.remote_gid.size(), path.remote_gid.begin());
  path.remote_lid = from.dlid;
  path.remote_mac = ResolveMac(engine, path.remote_gid);
  path.local_gid_index = from.sgid_index;
  path.hop_limit = from.hop_limit;
  path.traffic_class = from.traffic_class;
  path.service_level = from.sl;
  path.flow_label = from.flow_label;
  return path;
}

ib_uverbs_qp_dest WritePath(const AddressPath& path, uint8_t port) {
  ib_uverbs_qp_dest to{};
  to.is_global = path.grh;
  std::copy(path.remote_gid.begin(), path.remote_gid.end(), to.dgid);
  to.dlid = path.remote_lid;
  to.sgid_index = path.local_gid_index;
  to.hop_limit = path.hop_limit;
  to.traffic_class = path.traffic_class;
  to.sl = path.service_level;
  to.flow_label = path.flow_label;
  to.port_num = port;
  return to;
}

/// The attributes that a transition may set. The hardware checks the required ones.
///
/// @source  Linux v6.1, drivers/infiniband/core/verbs.c, qp_state_table, without alternate paths; for DC
///          drivers/infiniband/hw/mlx5/qp.c, modify_dci_qp_is_ok()
struct VerbsTransition {
  QpState from, to;
  uint32_t reliable, unreliable, datagram;  ///< masks by service
  uint32_t initiator = 0;                   ///< mask of a DC initiator
};

constexpr uint32_t kInitConnected = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr uint32_t kInitDatagram = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr uint32_t kRtrConnected =
    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
constexpr uint32_t kRtsConnected = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE;
constexpr uint32_t kRtsDatagram = IBV_QP_CUR_STATE | IBV_QP_QKEY;
constexpr uint32_t kRtsReliable = IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

constexpr VerbsTransition kVerbsTransitions[] = {
    {QpState::kReset, QpState::kInit, kInitConnected, kInitConnected, kInitDatagram,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT},
    {QpState::kInit, QpState::kInit, kInitConnected, kInitConnected, kInitDatagram,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT},
    {QpState::kInit, QpState::kRtr, kRtrConnected | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     kRtrConnected, IBV_QP_PKEY_INDEX | IBV_QP_QKEY, IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_PATH_MTU},
    {QpState::kRtr, QpState::kRts, kRtsConnected | kRtsReliable, kRtsConnected | IBV_QP_SQ_PSN,
     kRtsDatagram | IBV_QP_SQ_PSN, kRtsReliable},
    {QpState::kRts, QpState::kRts, kRtsConnected | IBV_QP_MIN_RNR_TIMER, kRtsConnected, kRtsDatagram,
     IBV_QP_MIN_RNR_TIMER},
};

uint32_t AllowedAttributes(const VerbsTransition& transition, mlx5::ServiceType service) {
  switch (service) {
    case mlx5::ServiceType::kUc:
      return transition.unreliable;
    case mlx5::ServiceType::kUd:
      return transition.datagram;
    case mlx5::ServiceType::kDci:
      return transition.initiator;
    default:
      return transition.reliable;
  }
}

/// Checks a transition of a DC target, which has two, and needs exactly these attributes.
///
/// @source  Linux v6.1, drivers/infiniband/hw/mlx5/qp.c, mlx5_ib_modify_dct()
void CheckTargetAttributes(const QueuePair& qp, QpState to, uint32_t mask) {
  constexpr uint32_t kInit = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  constexpr uint32_t kRtr = IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU;
  const bool init = qp.state == QpState::kReset && to == QpState::kInit;
  const bool rtr = qp.state == QpState::kInit && to == QpState::kRtr;
  if (!init && !rtr) throw Errno(EINVAL, "a DC target has no such transition");
  if (mask != (init ? kInit : kRtr))
    throw Errno(EINVAL, "a DC target needs other attributes for this transition");
}

void CheckAttributes(const QueuePair& qp, QpState to, uint32_t mask) {
  if (qp.config.service == mlx5::ServiceType::kDct) return CheckTargetAttributes(qp, to, mask);
  uint32_t allowed = 0;  // transitions to RESET and ERR set nothing
  if (to != QpState::kReset && (to != QpState::kError || qp.state == QpState::kReset)) {
    const auto found =
        std::find_if(std::begin(kVerbsTransitions), std::end(kVerbsTransitions),
                     [&](const VerbsTransition& row) { return row.from == qp.state && row.to == to; });
    if (found == std::end(kVerbsTransitions)) throw Errno(EINVAL, "the transition does not exist");
    allowed = AllowedAttributes(*found, qp.config.service);
  }
  if (const uint32_t others = mask & ~(allowed | IBV_QP_STATE); others != 0)
    throw Errno(EINVAL, "the transition does not allow attributes " + std::to_string(others));
}

void CheckValues(const ib_uverbs_modify_qp& cmd) {
  const auto exceeds = [&](uint32_t mask, uint32_t value, uint32_t max) {
    return (cmd.attr_mask & mask) != 0 && value > max;
  };
  constexpr uint32_t kReads = 1u << limits::kLogReads;
  if (exceeds(IBV_QP_MAX_QP_RD_ATOMIC, cmd.max_rd_atomic, kReads) ||
      exceeds(IBV_QP_MAX_DEST_RD_ATOMIC, cmd.max_dest_rd_atomic, kReads)) {
    throw Errno(EINVAL, "more reads and atomics in flight than the device has resources for");
  }
  if (exceeds(IBV_QP_PKEY_INDEX, cmd.pkey_index, limits::kPkeys - 1))
    throw Errno(EINVAL, "the pkey does not exist");
  if (exceeds(IBV_QP_RETRY_CNT, cmd.retry_cnt, 7) || exceeds(IBV_QP_RNR_RETRY, cmd.rnr_retry, 7) ||
      exceeds(IBV_QP_TIMEOUT, cmd.timeout, 31) || exceeds(IBV_QP_MIN_RNR_TIMER, cmd.min_rnr_timer, 31)) {
    throw Errno(EINVAL, "a retry count or timer is out of range");
  }
}

QpChange ReadChange(const ib_uverbs_modify_qp& cmd, const Engine& engine) {
  const auto has = [&](uint32_t mask) { return (cmd.attr_mask & mask) != 0; };
  constexpr uint32_t kPsn = 0xffffff;
  QpChange change;
  if (has(IBV_QP_PKEY_INDEX)) change.pkey_index = cmd.pkey_index;
  if (has(IBV_QP_PORT)) change.port = cmd.port_num;
  if (has(IBV_QP_AV)) change.path = ReadPath(cmd.dest, engine);
  if (has(IBV_QP_PATH_MTU)) change.mtu = static_cast<mlx5::Mtu>(cmd.path_mtu);
  if (has(IBV_QP_DEST_QPN)) change.remote_qpn = cmd.dest_qp_num;
  if (has(IBV_QP_RQ_PSN)) change.receive_psn = cmd.rq_psn & kPsn;
  if (has(IBV_QP_SQ_PSN)) change.send_psn = cmd.sq_psn & kPsn;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) change.max_reads_in = cmd.max_dest_rd_atomic;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) change.max_reads_out = cmd.max_rd_atomic;
  if (has(IBV_QP_MIN_RNR_TIMER)) change.min_rnr_timer = cmd.min_rnr_timer;
  if (has(IBV_QP_TIMEOUT)) change.ack_timeout = cmd.timeout;
  if (has(IBV_QP_RETRY_CNT)) change.retry_count = cmd.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) change.rnr_retry = cmd.rnr_retry;
  if (has(IBV_QP_QKEY)) change.qkey = cmd.qkey;
  return change;
}

}  // namespace

void ModifyQpByVerbs(Call& call) {
  const auto cmd = call.request().Get<ib_uverbs_modify_qp>(UVERBS_ATTR_CORE_IN);
  CheckValues(cmd);
  auto& object = call.context().Get<QpObject>(cmd.qp_handle, Kind::kQp);
  const uint32_t qpn = object.number;
  const QueuePair& qp = call.hca().Qp(qpn);
  const QpState now = qp.state;
  if ((cmd.attr_mask & IBV_QP_CUR_STATE) != 0 && ToMlx5(cmd.cur_qp_state) != now) {
    throw Errno(EINVAL, "queue pair " + std::to_string(qpn) + " is not in the state that the program names");
  }
  const QpState to = (cmd.attr_mask & IBV_QP_STATE) != 0 ? ToMlx5(cmd.qp_state) : now;
  CheckAttributes(qp, to, cmd.attr_mask);
  QpChange change = ReadChange(cmd, call.context().engine());
  const bool grants = (cmd.attr_mask & IBV_QP_ACCESS_FLAGS) != 0;
  const uint32_t granted = grants ? cmd.qp_access_flags : object.access;
  if (grants || change.max_reads_in) {
    // Without responder resources a peer may neither read nor use atomics, whatever its access rights.
    const uint8_t reads = change.max_reads_in.value_or(qp.attributes.max_reads_in);
    const bool has_resources = reads != 0 || qp.config.service == mlx5::ServiceType::kDct;
    change.access = has_resources ? granted : granted & IBV_ACCESS_REMOTE_WRITE;
  }
  call.hca().ModifyQp(qpn, to, change);
  object.access = granted;
  mlx5_ib_modify_qp_resp driver{};
  driver.response_length = sizeof driver;
  if (qp.config.service == mlx5::ServiceType::kDct) driver.dctn = qpn;
  call.request().Set(UVERBS_ATTR_UHW_OUT, driver);
}

/// Reports the sizes of the receive queue and the rights as Linux does: those that the device has.
///
/// @source  Linux 6.1, drivers/infiniband/hw/mlx5/qp.c, set_rq_size() and to_ib_qp_access_flags()
void QueryQpByVerbs(Call& call) {
  constexpr uint32_t kRemoteAccess =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  const auto cmd = call.request().Get<ib_uverbs_query_qp>(UVERBS_ATTR_CORE_IN);
  const auto& object = call.context().Get<QpObject>(cmd.qp_handle, Kind::kQp);
  const QueuePair& qp = call.hca().Qp(object.number);
  const QpAttributes& attributes = qp.attributes;
  ib_uverbs_query_qp_resp resp{};
  resp.dest = WritePath(attributes.path, attributes.port);
  resp.max_send_wr = object.cap.max_send_wr;
  if (const ReceiveQueueConfig& receive = qp.config.receive; receive.depth != 0 && qp.srq == nullptr) {
    resp.max_recv_wr = receive.depth;  // both are rounded up to powers of two
    resp.max_recv_sge = receive.stride / static_cast<uint32_t>(sizeof(mlx5::DataSegment));
  }
  resp.max_send_sge = object.cap.max_send_sge;
  resp.max_inline_data = object.cap.max_inline_data;
  resp.rq_psn = qp.next_receive_psn;
  resp.sq_psn = qp.next_send_psn;
  resp.qkey = attributes.qkey;
  resp.dest_qp_num = attributes.remote_qpn;
  resp.qp_access_flags = attributes.access & kRemoteAccess;
  resp.pkey_index = attributes.pkey_index;
  resp.qp_state = ToVerbs(qp.state);
  resp.cur_qp_state = resp.qp_state;
  resp.path_mtu = static_cast<uint8_t>(attributes.mtu);
  resp.path_mig_state = IBV_MIG_MIGRATED;
  resp.max_rd_atomic = attributes.max_reads_out;
  resp.max_dest_rd_atomic = attributes.max_reads_in;
  resp.min_rnr_timer = attributes.min_rnr_timer;
  resp.port_num = attributes.port;
  resp.timeout = attributes.ack_timeout;
  resp.retry_cnt = attributes.retry_count;
  resp.rnr_retry = attributes.rnr_retry;
  resp.sq_sig_all = object.signal_all;
  call.request().Set(UVERBS_ATTR_CORE_OUT, resp);
}

}  // namespace softhca::uverbs
