#include "uverbs/capabilities.hpp"

#include <infiniband/verbs.h>

#include <string>

#include "core/error.hpp"
#include "core/identity.hpp"
#include "core/limits.hpp"
#include "core/mkey.hpp"

namespace softhca::uverbs {
namespace {

using mlx5::CapabilityPage;
using mlx5::PortType;
using mlx5::SetField;
using Words = std::span<mlx5::Be32>;

constexpr uint64_t FirmwareVersion() {
  using namespace identity;
  return uint64_t{kFirmwareMajor} << 32 | uint64_t{kFirmwareMinor} << 16 | kFirmwarePatch;
}

/// A GID table has 8 << code entries.
uint32_t GidTableCode(PortType link) { return limits::GidTableSize(link) == 16 ? 1 : 0; }

void FillTransport(const DeviceConfig& config, Words page) {
  using namespace mlx5::cmd_hca_cap;
  const bool ethernet = config.link == PortType::kEthernet;
  SetField(page, kPortType, config.link);
  SetField(page, kNumPorts, static_cast<uint32_t>(config.ports.size()));
  SetField(page, kNativePortNum, 1);
  SetField(page, kRc, true);
  SetField(page, kXrc, true);
  SetField(page, kRoce, ethernet);
  SetField(page, kAtomic, config.atomics);
  SetField(page, kCd, config.wait);
  SetField(page, kHcaCap2, true);
  SetField(page, kLogMaxMsg, config.log_max_message);
  SetField(page, kLogMaxRaReqQp, limits::kLogReads);
  SetField(page, kLogMaxRaResQp, limits::kLogReads);
  SetField(page, kLocalCaAckDelay, limits::kLocalAckDelay);
  SetField(page, kGidTableSize, GidTableCode(config.link));
  SetField(page, kPkeyTableSize, 0);  // 128 << code
  SetField(page, kLogMaxAtomicSizeQp, config.atomics ? 3 : 0);
}

void FillDynamicConnections(const DeviceConfig& config, Words page) {
  using namespace mlx5::cmd_hca_cap;
  SetField(page, kDct, true);
  SetField(page, kLogMaxDctConnections, limits::kLogDctConnections);
  SetField(page, kLogMaxRaReqDc, limits::kLogReads);
  SetField(page, kLogMaxRaResDc, limits::kLogReads);
  SetField(page, kMaxWqeSzSqDc, limits::kSendWqeBytes);
  SetField(page, kLogMaxAtomicSizeDc, config.atomics ? 3 : 0);
}

void FillQueues(const DeviceConfig& config, Words page) {
  using namespace mlx5::cmd_hca_cap;
  SetField(page, kLogMaxQp, limits::kLogQps);
  SetField(page, kLogMaxQpSz, limits::kLogQueueDepth);
  SetField(page, kLogMaxCq, limits::kLogCqs);
  SetField(page, kLogMaxCqSz, limits::kLogCqDepth);
  SetField(page, kLogMaxSrq, limits::kLogSrqs);
  SetField(page, kLogMaxSrqSz, limits::kLogQueueDepth);
  SetField(page, kLogMaxMkey, limits::kLogMkeys);
  SetField(page, kLogMaxMrwSz, 64);
  SetField(page, kImaicl, true);  // send with invalidate
  SetField(page, kDumpFillMkey, true);
  SetField(page, kFixedBufferSize, true);  // indirect keys
  SetField(page, kLogMaxPd, limits::kLogPds);
  SetField(page, kLogMaxXrcd, limits::kLogXrcds);
  SetField(page, kLogMaxMcg, limits::kLogGroups);
  SetField(page, kMaxQpMcg, limits::kGroupQps);
  SetField(page, kMaxWqeSzSq, limits::kSendWqeBytes);
  SetField(page, kMaxWqeSzRq, limits::kReceiveWqeBytes);
  SetField(page, kCqeVersion, config.user_index ? 1 : 0);
  SetField(page, kCqOi, true);
  SetField(page, kCqResize, true);
}

void FillRegisters(Words page) {
  using namespace mlx5::cmd_hca_cap;
  SetField(page, kUar4k, true);
  SetField(page, kNumOfUarsPerPage, 1);
  SetField(page, kBf, true);
  SetField(page, kLogBfRegSize, limits::kLogBfRegister);
  SetField(page, kLogPgSz, 12);
  SetField(page, kDeviceFrequencyMhz, limits::kClockKhz / 1000);
  SetField(page, kDeviceFrequencyKhz, limits::kClockKhz);
}

void FillAtomics(const DeviceConfig& config, Words page) {
  if (!config.atomics) return;
  using namespace mlx5;
  using namespace mlx5::atomic_caps;
  SetField(page, kAtomicReq8BEndiannessMode, config.host_order_atomics ? 1 : 0);
  SetField(page, kSupportedAtomicReq8BEndiannessMode1, true);
  SetField(page, kAtomicOperations,
           kAtomicCompareSwap | kAtomicFetchAdd | kAtomicMaskedCompareSwap | kAtomicMaskedFetchAdd);
  SetField(page, kAtomicSizeQp, limits::kAtomicBytes);
  SetField(page, kAtomicSizeDc, limits::kAtomicBytes);
}

void FillRoce(const DeviceConfig& config, Words page) {
  if (config.link != PortType::kEthernet) return;
  using namespace mlx5::roce_cap;
  constexpr uint32_t kV1 = 1, kV2 = 4, kIpv4 = 1, kIpv6 = 2;
  SetField(page, kL3Type, kIpv4 | kIpv6);
  SetField(page, kRoceVersion, kV1 | kV2);
  SetField(page, kRRoceDestUdpPort, limits::kRocePort);
  SetField(page, kRRoceMinSrcUdpPort, limits::kFirstSourcePort);
  SetField(page, kRRoceMaxSrcUdpPort, limits::kLastSourcePort);
  SetField(page, kRoceAddressTableSize, limits::GidTableSize(config.link));
}

}  // namespace

void FillCapabilities(CapabilityPage page, const DeviceConfig& config, Words out) {
  const Words words = out.subspan(mlx5::query_hca_cap_out::kCapability / 32);
  switch (page) {
    case CapabilityPage::kGeneral:
      FillTransport(config, words);
      FillDynamicConnections(config, words);
      FillQueues(config, words);
      FillRegisters(words);
      return;
    case CapabilityPage::kAtomic:
      return FillAtomics(config, words);
    case CapabilityPage::kRoce:
      return FillRoce(config, words);
    case CapabilityPage::kGeneral2:
      return;  // none
  }
}

ib_uverbs_query_device_resp DeviceAttributes(const DeviceConfig& config) {
  ib_uverbs_query_device_resp attributes{};
  attributes.fw_ver = FirmwareVersion();
  attributes.node_guid = mlx5::ToBe64(config.guid).raw;
  attributes.sys_image_guid = attributes.node_guid;
  attributes.max_mr_size = UINT64_MAX;
  attributes.page_size_cap = ~uint64_t{0xfff};
  attributes.vendor_id = identity::kIeeeVendor;
  attributes.vendor_part_id = identity::kPciDevice;
  attributes.max_qp = 1u << limits::kLogQps;
  attributes.max_qp_wr = 1u << limits::kLogQueueDepth;
  attributes.device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                                IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                                IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC;
  attributes.max_sge = limits::kSegments;
  attributes.max_sge_rd = limits::kSegments;
  attributes.max_cq = 1u << limits::kLogCqs;
  attributes.max_cqe = (1u << limits::kLogCqDepth) - 1;
  attributes.max_mr = 1u << limits::kLogMkeys;
  attributes.max_mw = 1u << limits::kLogMkeys;
  attributes.max_pd = 1u << limits::kLogPds;
  attributes.max_qp_rd_atom = 1u << limits::kLogReads;
  attributes.max_qp_init_rd_atom = 1u << limits::kLogReads;
  attributes.max_res_rd_atom = attributes.max_qp * attributes.max_qp_rd_atom;
  attributes.atomic_cap = config.atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
  attributes.max_ah = INT32_MAX;
  attributes.max_srq = 1u << limits::kLogSrqs;
  attributes.max_srq_wr = (1u << limits::kLogQueueDepth) - 1;
  attributes.max_srq_sge = limits::kSrqSegments;
  attributes.max_mcast_grp = 1u << limits::kLogGroups;
  attributes.max_mcast_qp_attach = limits::kGroupQps;
  attributes.max_total_mcast_qp_attach = attributes.max_mcast_grp * limits::kGroupQps;
  attributes.max_pkeys = limits::kPkeys;
  attributes.local_ca_ack_delay = limits::kLocalAckDelay;
  attributes.phys_port_cnt = static_cast<uint8_t>(config.ports.size());
  return attributes;
}

ib_uverbs_query_port_resp PortAttributes(const DeviceConfig& config, uint32_t port) {
  constexpr uint8_t kDisabled = 3, kPolling = 2, kLinkUp = 5, kFourLanes = 2;
  constexpr uint8_t kSdr = 1, kQdr = 4, kNdr = 128;
  const PortConfig& state = config.ports.at(port - 1);
  const bool ethernet = config.link == PortType::kEthernet;
  ib_uverbs_query_port_resp attributes{};
  attributes.port_cap_flags = limits::PortCapabilities(config.link);
  attributes.max_msg_sz = 1u << config.log_max_message;
  attributes.gid_tbl_len = limits::GidTableSize(config.link);
  attributes.pkey_tbl_len = static_cast<uint16_t>(limits::PkeyTableSize(config.link));
  attributes.lid = state.lid;
  attributes.state = state.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes.phys_state = state.up ? kLinkUp : ethernet ? kDisabled : kPolling;
  attributes.max_mtu = IBV_MTU_4096;
  attributes.active_mtu = static_cast<uint8_t>(config.mtu);
  attributes.active_width = kFourLanes;
  attributes.active_speed = state.up ? kNdr : ethernet ? kQdr : kSdr;
  attributes.link_layer = ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  if (ethernet) {
    attributes.flags = IBV_QPF_GRH_REQUIRED;
  } else {
    attributes.sm_lid = limits::kSubnetManagerLid;
    attributes.max_vl_num = 4;  // VL0 to VL7
    attributes.subnet_timeout = 18;
  }
  return attributes;
}

mlx5_ib_alloc_ucontext_resp ContextAttributes(const DeviceConfig& config) {
  mlx5_ib_alloc_ucontext_resp attributes{};
  attributes.qp_tab_size = 1u << limits::kLogQps;
  attributes.bf_reg_size = 1u << limits::kLogBfRegister;
  attributes.tot_bfregs = 0;  // UARs are allocated one by one
  attributes.cache_line_size = 64;
  attributes.max_sq_desc_sz = limits::kSendWqeBytes;
  attributes.max_rq_desc_sz = limits::kReceiveWqeBytes;
  attributes.max_send_wqebb = 1u << limits::kLogQueueDepth;
  attributes.max_recv_wr = 1u << limits::kLogQueueDepth;
  attributes.max_srq_recv_wr = 1u << limits::kLogQueueDepth;
  attributes.num_ports = static_cast<uint16_t>(config.ports.size());
  attributes.comp_mask = MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY;
  attributes.dump_fill_mkey = MkeyTable::kNullKey;
  attributes.response_length = sizeof attributes;
  attributes.cqe_version = 1;
  attributes.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH;
  attributes.eth_min_inline = MLX5_USER_INLINE_MODE_NONE;
  attributes.log_uar_size = 12;
  attributes.num_uars_per_page = 1;
  attributes.num_dyn_bfregs = 512;
  return attributes;
}

}  // namespace softhca::uverbs
