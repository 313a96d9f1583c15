#pragma once

#include <cstddef>
#include <cstdint>

#include "warpverbs/mlx5/mailbox.hpp"

/// The firmware commands that create, change and query queues, field by field.
///
/// The bits of contexts (`qpc`, `cqc`, `ads`, `mkc`) count from the context's start:
/// `qpc::kPd.At(create_qp_in::kQpc)`.
///
/// @source  bit for bit in tests/mlx5 against tables drawn from the public headers of rdma-core, gpunetio,
/// UCX and DPDK
namespace warpverbs::inline v0_2::mlx5 {

enum class CommandOpcode : uint16_t {
  kQueryHcaCap = 0x100,
  kCreateMkey = 0x200,
  kDestroyMkey = 0x202,
  kCreateCq = 0x400,
  kDestroyCq = 0x401,
  kCreateQp = 0x500,
  kDestroyQp = 0x501,
  kRst2InitQp = 0x502,
  kInit2RtrQp = 0x503,
  kRtr2RtsQp = 0x504,
  kRts2RtsQp = 0x505,
  k2ErrQp = 0x507,
  k2RstQp = 0x50a,
  kQueryQp = 0x50b,
  kInit2InitQp = 0x50e,
  kCreateDct = 0x710,
  kDestroyDct = 0x711,
  kDrainDct = 0x712,
  kQueryDct = 0x713,
  kQueryRoceAddress = 0x760,
  kAllocPd = 0x800,
  kDeallocPd = 0x801,
  kQueryLag = 0x842,
};

enum class CommandStatus : uint8_t {
  kOk = 0x00,
  kInternalError = 0x01,
  kBadOperation = 0x02,
  kBadParameter = 0x03,
  kBadSystemState = 0x04,
  kBadResource = 0x05,
  kResourceBusy = 0x06,
  kLimitExceeded = 0x08,
  kBadResourceState = 0x09,
  kBadIndex = 0x0a,
  kNoResources = 0x0f,
  kBadQpState = 0x10,
  kBadCqSize = 0x40,
  kBadInputLength = 0x50,
  kBadOutputLength = 0x51,
};

/// Describes a command status. Never null.
constexpr const char* Describe(CommandStatus status) {
  switch (status) {
    case CommandStatus::kOk:
      return "ok";
    case CommandStatus::kInternalError:
      return "internal error";
    case CommandStatus::kBadOperation:
      return "the device does not know this command";
    case CommandStatus::kBadParameter:
      return "a parameter is out of range";
    case CommandStatus::kBadSystemState:
      return "the device is not in a state to take this command";
    case CommandStatus::kBadResource:
      return "a named object does not exist or is of another kind";
    case CommandStatus::kResourceBusy:
      return "the object is still in use";
    case CommandStatus::kLimitExceeded:
      return "a device limit is exceeded";
    case CommandStatus::kBadResourceState:
      return "the object is not in a state to take this command";
    case CommandStatus::kBadIndex:
      return "an index is out of range";
    case CommandStatus::kNoResources:
      return "the device has no resources left";
    case CommandStatus::kBadQpState:
      return "the queue pair is not in a state to take this command";
    case CommandStatus::kBadCqSize:
      return "the completion queue holds more completions than it is to have entries";
    case CommandStatus::kBadInputLength:
      return "the input mailbox is too short";
    case CommandStatus::kBadOutputLength:
      return "the output mailbox is too short";
  }
  return "unknown command status";
}

enum class QpState : uint8_t {
  kReset = 0,
  kInit = 1,
  kRtr = 2,
  kRts = 3,
  kSqError = 4,
  kSqDrained = 5,
  kError = 6
};
enum class ServiceType : uint8_t { kRc = 0x0, kUc = 0x1, kUd = 0x2, kXrc = 0x3, kDci = 0x5, kDct = 0x6 };
enum class RqType : uint8_t { kRegular = 0, kSrq = 1, kNone = 3 };
enum class DctState : uint8_t { kActive = 0, kDraining = 1, kDrained = 2 };
enum class PathMigration : uint8_t { kArmed = 0, kRearm = 1, kMigrated = 3 };
enum class Mtu : uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };
enum class AtomicMode : uint8_t { kNone = 0, kIbSpec = 1, kOnly8 = 2, kUpTo8 = 3 };
enum class TimestampFormat : uint8_t { kFreeRunning = 0, kDefault = 1, kRealTime = 2 };
enum class PortType : uint8_t { kInfiniBand = 0, kEthernet = 1 };
enum class RoceVersion : uint8_t { kV1 = 0, kV2 = 2 };

/// Bits of `opt_param_mask`: which optional fields a transition changes.
enum OptParam : uint32_t {
  kOptRre = 0x2,
  kOptRae = 0x4,
  kOptRwe = 0x8,
  kOptPkeyIndex = 0x10,
  kOptMinRnrNak = 0x40
};

/// Bytes that all commands and all responses begin with.
inline constexpr size_t kCommandHeaderBytes = 16;
inline constexpr size_t kCommandOutBytes = 16;

/// The common fields of all command mailboxes.
namespace command_in {
inline constexpr Field<CommandOpcode> kOpcode{{"create_cq_in.opcode", 0, 16}};
inline constexpr Field<uint32_t> kOpMod{{"create_cq_in.op_mod", 48, 16}};
/// qpn, cqn or mkey index; the place is the same for all.
inline constexpr Field<uint32_t> kObjectNumber{{"query_qp_in.qpn", 72, 24}};
}  // namespace command_in

/// The common fields of all responses.
namespace command_out {
inline constexpr Field<CommandStatus> kStatus{{"create_cq_out.status", 0, 8}};
/// The firmware's number for the cause.
inline constexpr Field<uint32_t> kSyndrome{{"create_cq_out.syndrome", 32, 32}};
inline constexpr Field<uint32_t> kObjectNumber{{"create_cq_out.cqn", 72, 24}};
}  // namespace command_out

/// Completion queue context.
namespace cqc {
inline constexpr Field<uint32_t> kStatus{{"cqc.status", 0, 4}};
inline constexpr Field<bool> kDbrUmemValid{{"cqc.dbr_umem_valid", 6, 1}};
inline constexpr Field<uint32_t> kCqeSz{{"cqc.cqe_sz", 8, 3}};
inline constexpr Field<bool> kCc{{"cqc.cc", 11, 1}};
inline constexpr Field<bool> kOi{{"cqc.oi", 14, 1}};
inline constexpr Field<uint32_t> kSt{{"cqc.st", 20, 4}};
inline constexpr Field<uint32_t> kDbrUmemId{{"cqc.dbr_umem_id", 32, 32}};
inline constexpr Field<uint32_t> kLogCqSize{{"cqc.log_cq_size", 99, 5}};
inline constexpr Field<uint32_t> kUarPage{{"cqc.uar_page", 104, 24}};
inline constexpr Field<uint32_t> kCEqn{{"cqc.c_eqn", 184, 8}};
inline constexpr Field<uint32_t> kLogPageSize{{"cqc.log_page_size", 195, 5}};
inline constexpr Field<uint32_t> kConsumerCounter{{"cqc.consumer_counter", 328, 24}};
inline constexpr Field<uint32_t> kProducerCounter{{"cqc.producer_counter", 360, 24}};
inline constexpr Field<uint64_t> kDbrAddr{{"cqc.dbr_addr", 448, 64}};
}  // namespace cqc

namespace create_cq_in {
inline constexpr size_t kBytes = 272;
inline constexpr uint32_t kCqc = 128;  ///< bit of the embedded context
inline constexpr Field<uint64_t> kCqUmemOffset{{"create_cq_in.cq_umem_offset", 640, 64}};
inline constexpr Field<uint32_t> kCqUmemId{{"create_cq_in.cq_umem_id", 704, 32}};
inline constexpr Field<bool> kCqUmemValid{{"create_cq_in.cq_umem_valid", 736, 1}};
}  // namespace create_cq_in

/// Address path: the destination of a queue pair.
namespace ads {
inline constexpr Field<bool> kGrh{{"ads.grh", 40, 1}};
inline constexpr Field<uint32_t> kRlid{{"ads.rlid", 48, 16}};
inline constexpr Field<uint32_t> kAckTimeout{{"ads.ack_timeout", 64, 5}};
inline constexpr Field<uint32_t> kSrcAddrIndex{{"ads.src_addr_index", 72, 8}};
inline constexpr Field<uint32_t> kHopLimit{{"ads.hop_limit", 88, 8}};
inline constexpr Field<uint32_t> kTclass{{"ads.tclass", 100, 8}};
inline constexpr Field<uint32_t> kFlowLabel{{"ads.flow_label", 108, 20}};
inline constexpr FieldPlace kRgidRip{"ads.rgid_rip", 128, 128};
inline constexpr Field<uint32_t> kDscp{{"ads.dscp", 266, 6}};
inline constexpr Field<uint32_t> kUdpSport{{"ads.udp_sport", 272, 16}};
inline constexpr Field<uint32_t> kEthPrio{{"ads.eth_prio", 289, 3}};
inline constexpr Field<uint32_t> kSl{{"ads.sl", 292, 4}};
inline constexpr Field<uint32_t> kVhcaPortNum{{"ads.vhca_port_num", 296, 8}};
inline constexpr Field<uint32_t> kRmac4732{{"ads.rmac_47_32", 304, 16}};
inline constexpr Field<uint32_t> kRmac310{{"ads.rmac_31_0", 320, 32}};
inline constexpr Field<uint32_t> kPkeyIndex{{"ads.pkey_index", 16, 16}};
}  // namespace ads

/// Queue pair context.
namespace qpc {
inline constexpr size_t kBytes = 232;
inline constexpr uint32_t kPrimaryAddressPath = 192;  ///< bit of the embedded ads
inline constexpr Field<QpState> kState{{"qpc.state", 0, 4}};
inline constexpr Field<ServiceType> kSt{{"qpc.st", 8, 8}};
inline constexpr Field<PathMigration> kPmState{{"qpc.pm_state", 19, 2}};
inline constexpr Field<uint32_t> kPd{{"qpc.pd", 40, 24}};
inline constexpr Field<Mtu> kMtu{{"qpc.mtu", 64, 3}};
inline constexpr Field<uint32_t> kLogMsgMax{{"qpc.log_msg_max", 67, 5}};
inline constexpr Field<uint32_t> kLogRqSize{{"qpc.log_rq_size", 73, 4}};
inline constexpr Field<uint32_t> kLogRqStride{{"qpc.log_rq_stride", 77, 3}};
inline constexpr Field<bool> kNoSq{{"qpc.no_sq", 80, 1}};
inline constexpr Field<uint32_t> kLogSqSize{{"qpc.log_sq_size", 81, 4}};
inline constexpr Field<TimestampFormat> kTsFormat{{"qpc.ts_format", 88, 2}};
inline constexpr Field<uint32_t> kUarPage{{"qpc.uar_page", 104, 24}};
inline constexpr Field<uint32_t> kSendDbrMode{{"qpc.send_dbr_mode", 128, 2}};
inline constexpr Field<uint32_t> kUserIndex{{"qpc.user_index", 136, 24}};
inline constexpr Field<uint32_t> kRemoteQpn{{"qpc.remote_qpn", 168, 24}};
inline constexpr Field<uint32_t> kLogAckReqFreq{{"qpc.log_ack_req_freq", 896, 4}};
inline constexpr Field<uint32_t> kLogSraMax{{"qpc.log_sra_max", 904, 3}};
inline constexpr Field<uint32_t> kRetryCount{{"qpc.retry_count", 909, 3}};
inline constexpr Field<uint32_t> kRnrRetry{{"qpc.rnr_retry", 912, 3}};
inline constexpr Field<uint32_t> kNextSendPsn{{"qpc.next_send_psn", 968, 24}};
inline constexpr Field<uint32_t> kCqnSnd{{"qpc.cqn_snd", 1000, 24}};
inline constexpr Field<uint32_t> kLogRraMax{{"qpc.log_rra_max", 1160, 3}};
inline constexpr Field<AtomicMode> kAtomicMode{{"qpc.atomic_mode", 1164, 4}};
inline constexpr Field<bool> kRre{{"qpc.rre", 1168, 1}};
inline constexpr Field<bool> kRwe{{"qpc.rwe", 1169, 1}};
inline constexpr Field<bool> kRae{{"qpc.rae", 1170, 1}};
inline constexpr Field<bool> kCdMaster{{"qpc.cd_master", 1183, 1}};
inline constexpr Field<uint32_t> kPageOffset{{"qpc.page_offset", 1172, 6}};
inline constexpr Field<uint32_t> kMinRnrNak{{"qpc.min_rnr_nak", 1187, 5}};
inline constexpr Field<uint32_t> kNextRcvPsn{{"qpc.next_rcv_psn", 1192, 24}};
inline constexpr Field<uint32_t> kCqnRcv{{"qpc.cqn_rcv", 1256, 24}};
inline constexpr Field<uint64_t> kDbrAddr{{"qpc.dbr_addr", 1280, 64}};
inline constexpr Field<uint32_t> kQKey{{"qpc.q_key", 1344, 32}};
inline constexpr Field<RqType> kRqType{{"qpc.rq_type", 1381, 3}};
inline constexpr Field<uint32_t> kSrqnRmpnXrqn{{"qpc.srqn_rmpn_xrqn", 1384, 24}};
inline constexpr Field<uint32_t> kHwSqWqebbCounter{{"qpc.hw_sq_wqebb_counter", 1440, 16}};
inline constexpr Field<uint32_t> kSwSqWqebbCounter{{"qpc.sw_sq_wqebb_counter", 1456, 16}};
inline constexpr Field<uint32_t> kCsReq{{"qpc.cs_req", 1584, 8}};
inline constexpr Field<uint32_t> kCsRes{{"qpc.cs_res", 1592, 8}};
inline constexpr Field<bool> kDbrUmemValid{{"qpc.dbr_umem_valid", 1667, 1}};
inline constexpr Field<uint32_t> kDbrUmemId{{"qpc.dbr_umem_id", 1824, 32}};
}  // namespace qpc

namespace create_qp_in {
inline constexpr size_t kBytes = 272;
inline constexpr uint32_t kQpc = 192;  ///< bit of the embedded context
inline constexpr Field<uint32_t> kOptParamMask{{"create_qp_in.opt_param_mask", 128, 32}};
inline constexpr Field<uint64_t> kWqUmemOffset{{"create_qp_in.wq_umem_offset", 2048, 64}};
inline constexpr Field<uint32_t> kWqUmemId{{"create_qp_in.wq_umem_id", 2112, 32}};
inline constexpr Field<bool> kWqUmemValid{{"create_qp_in.wq_umem_valid", 2144, 1}};
}  // namespace create_qp_in

/// All commands that change a queue pair's state share one layout.
namespace modify_qp_in {
inline constexpr size_t kBytes = 272;
inline constexpr uint32_t kQpc = 192;
inline constexpr Field<uint32_t> kQpn{{"init2rtr_qp_in.qpn", 72, 24}};
inline constexpr Field<uint32_t> kOptParamMask{{"init2rtr_qp_in.opt_param_mask", 128, 32}};
}  // namespace modify_qp_in

/// The response to QUERY_QP.
namespace query_qp_out {
inline constexpr size_t kBytes = 272;
inline constexpr uint32_t kQpc = 192;
}  // namespace query_qp_out

/// Memory key context.
namespace mkc {
inline constexpr Field<bool> kFree{{"mkc.free", 1, 1}};
inline constexpr Field<uint32_t> kAccessMode10{{"mkc.access_mode_1_0", 22, 2}};
inline constexpr Field<uint32_t> kAccessMode42{{"mkc.access_mode_4_2", 3, 3}};
inline constexpr Field<bool> kRelaxedOrderingWrite{{"mkc.relaxed_ordering_write", 13, 1}};
inline constexpr Field<bool> kRelaxedOrderingRead{{"mkc.relaxed_ordering_read", 473, 1}};
inline constexpr Field<bool> kUmrEn{{"mkc.umr_en", 16, 1}};
inline constexpr Field<bool> kA{{"mkc.a", 17, 1}};
inline constexpr Field<bool> kRw{{"mkc.rw", 18, 1}};
inline constexpr Field<bool> kRr{{"mkc.rr", 19, 1}};
inline constexpr Field<bool> kLw{{"mkc.lw", 20, 1}};
inline constexpr Field<bool> kLr{{"mkc.lr", 21, 1}};
inline constexpr Field<uint32_t> kQpn{{"mkc.qpn", 32, 24}};
inline constexpr Field<uint32_t> kMkey70{{"mkc.mkey_7_0", 56, 8}};
inline constexpr Field<bool> kLength64{{"mkc.length64", 96, 1}};
inline constexpr Field<bool> kEnRinval{{"mkc.en_rinval", 103, 1}};
inline constexpr Field<uint32_t> kPd{{"mkc.pd", 104, 24}};
inline constexpr Field<uint64_t> kStartAddr{{"mkc.start_addr", 128, 64}};
inline constexpr Field<uint64_t> kLen{{"mkc.len", 192, 64}};
inline constexpr Field<uint32_t> kTranslationsOctwordSize{{"mkc.translations_octword_size", 416, 32}};
inline constexpr Field<uint32_t> kLogPageSize{{"mkc.log_page_size", 475, 5}};
}  // namespace mkc

namespace create_mkey_in {
inline constexpr size_t kBytes = 272;
inline constexpr uint32_t kMkc = 128;
inline constexpr Field<bool> kMkeyUmemValid{{"create_mkey_in.mkey_umem_valid", 97, 1}};
inline constexpr Field<uint32_t> kTranslationsOctwordActualSize{
    {"create_mkey_in.translations_octword_actual_size", 768, 32}};
inline constexpr Field<uint32_t> kMkeyUmemId{{"create_mkey_in.mkey_umem_id", 800, 32}};
inline constexpr Field<uint64_t> kMkeyUmemOffset{{"create_mkey_in.mkey_umem_offset", 832, 64}};
}  // namespace create_mkey_in

/// Context of a DC target.
namespace dctc {
inline constexpr Field<DctState> kState{{"dctc.state", 4, 4}};
inline constexpr Field<uint32_t> kUserIndex{{"dctc.user_index", 40, 24}};
inline constexpr Field<uint32_t> kCqn{{"dctc.cqn", 72, 24}};
inline constexpr Field<AtomicMode> kAtomicMode{{"dctc.atomic_mode", 104, 4}};
inline constexpr Field<bool> kRre{{"dctc.rre", 108, 1}};
inline constexpr Field<bool> kRwe{{"dctc.rwe", 109, 1}};
inline constexpr Field<bool> kRae{{"dctc.rae", 110, 1}};
inline constexpr Field<uint32_t> kMinRnrNak{{"dctc.min_rnr_nak", 147, 5}};
inline constexpr Field<uint32_t> kSrqnXrqn{{"dctc.srqn_xrqn", 168, 24}};
inline constexpr Field<uint32_t> kPd{{"dctc.pd", 200, 24}};
inline constexpr Field<uint32_t> kTclass{{"dctc.tclass", 224, 8}};
inline constexpr Field<uint32_t> kFlowLabel{{"dctc.flow_label", 236, 20}};
inline constexpr Field<uint64_t> kDcAccessKey{{"dctc.dc_access_key", 256, 64}};
inline constexpr Field<Mtu> kMtu{{"dctc.mtu", 325, 3}};
inline constexpr Field<uint32_t> kPort{{"dctc.port", 328, 8}};
inline constexpr Field<uint32_t> kPkeyIndex{{"dctc.pkey_index", 336, 16}};
inline constexpr Field<uint32_t> kMyAddrIndex{{"dctc.my_addr_index", 360, 8}};
inline constexpr Field<uint32_t> kHopLimit{{"dctc.hop_limit", 376, 8}};
inline constexpr Field<uint32_t> kDcAccessKeyViolationCount{{"dctc.dc_access_key_violation_count", 384, 32}};
inline constexpr Field<uint32_t> kEthPrio{{"dctc.eth_prio", 437, 3}};
inline constexpr Field<uint32_t> kDscp{{"dctc.dscp", 442, 6}};
}  // namespace dctc

namespace create_dct_in {
inline constexpr size_t kBytes = 176;
inline constexpr uint32_t kDctc = 128;  ///< bit of the embedded context
}  // namespace create_dct_in

/// The response to QUERY_DCT.
namespace query_dct_out {
inline constexpr size_t kBytes = 128;
inline constexpr uint32_t kDctc = 128;
}  // namespace query_dct_out

namespace query_roce_address_in {
inline constexpr size_t kBytes = 16;
inline constexpr Field<uint32_t> kRoceAddressIndex{{"query_roce_address_in.roce_address_index", 64, 16}};
inline constexpr Field<uint32_t> kVhcaPortNum{{"query_roce_address_in.vhca_port_num", 92, 4}};
}  // namespace query_roce_address_in

namespace query_roce_address_out {
inline constexpr size_t kBytes = 48;
inline constexpr uint32_t kAddress = 128;
}  // namespace query_roce_address_out

/// One entry of the GID table.
namespace roce_addr_layout {
inline constexpr FieldPlace kSourceL3Address{"roce_addr_layout.source_l3_address", 0, 128};
inline constexpr Field<uint32_t> kSourceMac4732{{"roce_addr_layout.source_mac_47_32", 144, 16}};
inline constexpr Field<uint32_t> kSourceMac310{{"roce_addr_layout.source_mac_31_0", 160, 32}};
inline constexpr Field<uint32_t> kRoceL3Type{{"roce_addr_layout.roce_l3_type", 212, 4}};
inline constexpr Field<RoceVersion> kRoceVersion{{"roce_addr_layout.roce_version", 216, 8}};
}  // namespace roce_addr_layout

}  // namespace warpverbs::inline v0_2::mlx5
