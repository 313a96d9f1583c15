#include "queue/queue_pair.hpp"

#include <algorithm>
#include <bit>

#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

namespace qpc = mlx5::qpc;
namespace ads = mlx5::ads;

using CreateQpMailbox = mlx5::Mailbox<mlx5::create_qp_in::kBytes>;
using ModifyMailbox = mlx5::Mailbox<mlx5::modify_qp_in::kBytes>;

constexpr uint32_t kQpc = mlx5::modify_qp_in::kQpc;  // every command embeds the context at the same bit
static_assert(kQpc == mlx5::create_qp_in::kQpc && kQpc == mlx5::query_qp_out::kQpc);
constexpr uint32_t kAds = kQpc + qpc::kPrimaryAddressPath;

CreateQpMailbox CreateCommand(const QueuePairConfig& config) {
  namespace in = mlx5::create_qp_in;
  CreateQpMailbox create;
  create.Set(mlx5::command_in::kOpcode, mlx5::CommandOpcode::kCreateQp)
      .Set(qpc::kSt.At(kQpc), mlx5::ServiceType::kRc)
      .Set(qpc::kPmState.At(kQpc), mlx5::PathMigration::kMigrated)
      .Set(qpc::kPd.At(kQpc), config.pdn)
      .Set(qpc::kUarPage.At(kQpc), config.uar_page)
      .Set(qpc::kCqnSnd.At(kQpc), config.cqn)
      .Set(qpc::kUserIndex.At(kQpc), config.user_index)
      .Set(qpc::kCdMaster.At(kQpc), config.wait_on_cq)
      .Set(qpc::kLogSqSize.At(kQpc), static_cast<uint32_t>(std::countr_zero(config.depth)))
      .Set(qpc::kTsFormat.At(kQpc), config.timestamp_format)
      // No scatter to CQE: kernels expect data in memory only.
      .Set(qpc::kCsReq.At(kQpc), 0)
      .Set(qpc::kCsRes.At(kQpc), 0)
      .Set(qpc::kDbrUmemValid.At(kQpc), true)
      .Set(qpc::kDbrUmemId.At(kQpc), config.umem_id)
      .Set(qpc::kDbrAddr.At(kQpc), config.dbr_offset)
      .Set(in::kWqUmemValid, true)
      .Set(in::kWqUmemId, config.umem_id)
      .Set(in::kWqUmemOffset, config.queues_offset);
  if (config.receive_depth == 0) {
    create.Set(qpc::kCqnRcv.At(kQpc), config.cqn).Set(qpc::kRqType.At(kQpc), mlx5::RqType::kNone);
    return create;
  }
  const auto log_segments =
      static_cast<uint32_t>(std::countr_zero(config.receive_stride / mlx5::kSegmentBytes));
  create.Set(qpc::kCqnRcv.At(kQpc), config.receive_cqn)
      .Set(qpc::kRqType.At(kQpc), mlx5::RqType::kRegular)
      .Set(qpc::kLogRqSize.At(kQpc), static_cast<uint32_t>(std::countr_zero(config.receive_depth)))
      .Set(qpc::kLogRqStride.At(kQpc), log_segments);
  return create;
}

ModifyMailbox Transition(mlx5::CommandOpcode opcode, uint32_t qpn) {
  ModifyMailbox in;
  in.Set(mlx5::command_in::kOpcode, opcode).Set(mlx5::modify_qp_in::kQpn, qpn);
  return in;
}

uint32_t FloorLog2(uint32_t value) {
  return value == 0 ? 0 : static_cast<uint32_t>(std::bit_width(value)) - 1;
}

void SetEthernetPath(ModifyMailbox& in, const Path& path) {
  uint32_t mac_high = path.peer_mac[0] << 8 | path.peer_mac[1];
  uint32_t mac_low = 0;
  for (size_t i = 2; i < path.peer_mac.size(); ++i) mac_low = mac_low << 8 | path.peer_mac[i];
  in.Set(ads::kRmac4732.At(kAds), mac_high)
      .Set(ads::kRmac310.At(kAds), mac_low)
      .Set(ads::kUdpSport.At(kAds), path.udp_source_port)
      .Set(ads::kDscp.At(kAds), path.traffic_class >> 2)
      .Set(ads::kEthPrio.At(kAds), path.service_level);
}

void SetInfiniBandPath(ModifyMailbox& in, const Path& path) {
  in.Set(ads::kRlid.At(kAds), path.peer_lid)
      .Set(ads::kGrh.At(kAds), path.grh)
      .Set(ads::kSl.At(kAds), path.service_level)
      .Set(ads::kTclass.At(kAds), path.traffic_class);
}

}  // namespace

QueuePair::QueuePair(ibv_context* context, const QueuePairConfig& config)
    : qp_(context, "the queue pair", CreateCommand(config)) {}

void QueuePair::ToInit(uint8_t port, uint16_t pkey_index, const RemoteRights& rights) {
  ModifyMailbox in = Transition(mlx5::CommandOpcode::kRst2InitQp, qpn());
  in.Set(qpc::kPmState.At(kQpc), mlx5::PathMigration::kMigrated)
      .Set(qpc::kRre.At(kQpc), rights.read)
      .Set(qpc::kRwe.At(kQpc), rights.write)
      .Set(qpc::kRae.At(kQpc), rights.atomic != mlx5::AtomicMode::kNone)
      .Set(qpc::kAtomicMode.At(kQpc), rights.atomic)
      .Set(ads::kVhcaPortNum.At(kAds), port)
      .Set(ads::kPkeyIndex.At(kAds), pkey_index);
  qp_.Modify("move to INIT", in);
}

void QueuePair::ToRtr(const Path& path, const Session& session, const RetryConfig& retry) {
  ModifyMailbox in = Transition(mlx5::CommandOpcode::kInit2RtrQp, qpn());
  in.Set(qpc::kMtu.At(kQpc), path.mtu)
      .Set(qpc::kLogMsgMax.At(kQpc), session.log_max_message)
      .Set(qpc::kRemoteQpn.At(kQpc), session.peer_qpn)
      .Set(qpc::kNextRcvPsn.At(kQpc), session.receive_psn)
      .Set(qpc::kLogRraMax.At(kQpc), FloorLog2(session.reads_in))
      .Set(qpc::kMinRnrNak.At(kQpc), retry.min_rnr_timer)
      .Set(ads::kVhcaPortNum.At(kAds), path.port)
      .Set(ads::kSrcAddrIndex.At(kAds), path.gid_index)
      .Set(ads::kHopLimit.At(kAds), path.hop_limit)
      .SetBytes(ads::kRgidRip, kAds, path.peer_gid.raw);
  if (path.link_layer == LinkLayer::kEthernet) {
    SetEthernetPath(in, path);
  } else {
    SetInfiniBandPath(in, path);
  }
  qp_.Modify("move to RTR", in);
}

void QueuePair::ToRts(const Session& session, const RetryConfig& retry) {
  ModifyMailbox in = Transition(mlx5::CommandOpcode::kRtr2RtsQp, qpn());
  in.Set(qpc::kNextSendPsn.At(kQpc), session.send_psn)
      .Set(qpc::kLogSraMax.At(kQpc), FloorLog2(session.reads_out))
      .Set(qpc::kRetryCount.At(kQpc), retry.retry_count)
      .Set(qpc::kRnrRetry.At(kQpc), retry.rnr_retry)
      .Set(ads::kAckTimeout.At(kAds), retry.ack_timeout);
  qp_.Modify("move to RTS", in);
}

void QueuePair::ToError() { qp_.Modify("move to ERROR", Transition(mlx5::CommandOpcode::k2ErrQp, qpn())); }

void QueuePair::ToReset() { qp_.Modify("reset", Transition(mlx5::CommandOpcode::k2RstQp, qpn())); }

mlx5::QpState QueuePair::State() const {
  mlx5::Mailbox<mlx5::kCommandHeaderBytes> in;
  in.Set(mlx5::command_in::kOpcode, mlx5::CommandOpcode::kQueryQp)
      .Set(mlx5::command_in::kObjectNumber, qpn());
  mlx5::Mailbox<mlx5::query_qp_out::kBytes> out;
  qp_.Query(in, out);
  return out.Get(qpc::kState.At(kQpc));
}

const char* ToString(mlx5::QpState state) {
  switch (state) {
    case mlx5::QpState::kReset:
      return "RESET";
    case mlx5::QpState::kInit:
      return "INIT";
    case mlx5::QpState::kRtr:
      return "RTR";
    case mlx5::QpState::kRts:
      return "RTS";
    case mlx5::QpState::kSqError:
      return "SQ ERROR";
    case mlx5::QpState::kSqDrained:
      return "SQ DRAINED";
    case mlx5::QpState::kError:
      return "ERROR";
  }
  return "unknown";
}

}  // namespace warpverbs::inline v0_2::host
