#pragma once

#include <cstddef>
#include <cstdint>

#include "warpverbs/mlx5/commands.hpp"
#include "warpverbs/mlx5/mailbox.hpp"

/// Device capabilities, as QUERY_HCA_CAP returns them.
namespace warpverbs::inline v0_2::mlx5 {

/// The pages of QUERY_HCA_CAP; `op_mod` is page << 1 | current.
enum class CapabilityPage : uint16_t { kGeneral = 0, kAtomic = 3, kRoce = 4, kGeneral2 = 0x20 };

/// Bits of atomic_caps::kAtomicOperations.
enum AtomicOperation : uint32_t {
  kAtomicCompareSwap = 1,
  kAtomicFetchAdd = 2,
  kAtomicMaskedCompareSwap = 4,
  kAtomicMaskedFetchAdd = 8,
};

namespace query_hca_cap_out {
inline constexpr size_t kBytes = 4112;
inline constexpr uint32_t kCapability = 128;  ///< bit of the embedded page
}  // namespace query_hca_cap_out

/// General capabilities.
namespace cmd_hca_cap {
inline constexpr Field<bool> kHcaCap2{{"cmd_hca_cap.hca_cap_2", 32, 1}};
inline constexpr Field<uint32_t> kVhcaId{{"cmd_hca_cap.vhca_id", 48, 16}};
inline constexpr Field<bool> kQpDataInOrder{{"cmd_hca_cap.qp_data_in_order", 98, 1}};
inline constexpr Field<uint32_t> kLogMaxSrqSz{{"cmd_hca_cap.log_max_srq_sz", 128, 8}};
inline constexpr Field<uint32_t> kLogMaxQpSz{{"cmd_hca_cap.log_max_qp_sz", 136, 8}};
inline constexpr Field<uint32_t> kLogMaxQp{{"cmd_hca_cap.log_max_qp", 155, 5}};
inline constexpr Field<bool> kEce{{"cmd_hca_cap.ece", 163, 1}};
inline constexpr Field<uint32_t> kLogMaxSrq{{"cmd_hca_cap.log_max_srq", 171, 5}};
inline constexpr Field<uint32_t> kLogMaxCqSz{{"cmd_hca_cap.log_max_cq_sz", 200, 8}};
inline constexpr Field<uint32_t> kLogMaxCq{{"cmd_hca_cap.log_max_cq", 219, 5}};
inline constexpr Field<uint32_t> kLogMaxEqSz{{"cmd_hca_cap.log_max_eq_sz", 224, 8}};
inline constexpr Field<bool> kRelaxedOrderingWrite{{"cmd_hca_cap.relaxed_ordering_write", 232, 1}};
inline constexpr Field<bool> kRelaxedOrderingRead{{"cmd_hca_cap.relaxed_ordering_read", 233, 1}};
inline constexpr Field<uint32_t> kLogMaxMkey{{"cmd_hca_cap.log_max_mkey", 234, 6}};
inline constexpr Field<bool> kDumpFillMkey{{"cmd_hca_cap.dump_fill_mkey", 248, 1}};
inline constexpr Field<uint32_t> kLogMaxEq{{"cmd_hca_cap.log_max_eq", 252, 4}};
inline constexpr Field<bool> kFixedBufferSize{{"cmd_hca_cap.fixed_buffer_size", 264, 1}};
inline constexpr Field<uint32_t> kLogMaxMrwSz{{"cmd_hca_cap.log_max_mrw_sz", 265, 7}};
inline constexpr Field<bool> kNullMkey{{"cmd_hca_cap.null_mkey", 281, 1}};
inline constexpr Field<uint32_t> kLogMaxKlmListSize{{"cmd_hca_cap.log_max_klm_list_size", 282, 6}};
inline constexpr Field<bool> kOooSlMask{{"cmd_hca_cap.ooo_sl_mask", 312, 1}};
inline constexpr Field<uint32_t> kLogMaxRaReqDc{{"cmd_hca_cap.log_max_ra_req_dc", 298, 6}};
inline constexpr Field<uint32_t> kLogMaxRaResDc{{"cmd_hca_cap.log_max_ra_res_dc", 314, 6}};
inline constexpr Field<uint32_t> kLogMaxRaReqQp{{"cmd_hca_cap.log_max_ra_req_qp", 330, 6}};
inline constexpr Field<bool> kRts2rtsQpUdpSport{{"cmd_hca_cap.rts2rts_qp_udp_sport", 337, 1}};
inline constexpr Field<uint32_t> kLogMaxRaResQp{{"cmd_hca_cap.log_max_ra_res_qp", 346, 6}};
inline constexpr Field<bool> kRts2rtsQpDscp{{"cmd_hca_cap.rts2rts_qp_dscp", 362, 1}};
inline constexpr Field<uint32_t> kGidTableSize{{"cmd_hca_cap.gid_table_size", 368, 16}};
inline constexpr Field<uint32_t> kPkeyTableSize{{"cmd_hca_cap.pkey_table_size", 400, 16}};
inline constexpr Field<bool> kVportGroupManager{{"cmd_hca_cap.vport_group_manager", 416, 1}};
inline constexpr Field<bool> kDeviceMemory{{"cmd_hca_cap.device_memory", 424, 1}};
inline constexpr Field<uint32_t> kLocalCaAckDelay{{"cmd_hca_cap.local_ca_ack_delay", 427, 5}};
inline constexpr Field<PortType> kPortType{{"cmd_hca_cap.port_type", 438, 2}};
inline constexpr Field<uint32_t> kNumPorts{{"cmd_hca_cap.num_ports", 440, 8}};
inline constexpr Field<uint32_t> kLogMaxMsg{{"cmd_hca_cap.log_max_msg", 451, 5}};
inline constexpr Field<uint32_t> kCqeVersion{{"cmd_hca_cap.cqe_version", 508, 4}};
inline constexpr Field<bool> kCompactAddressVector{{"cmd_hca_cap.compact_address_vector", 512, 1}};
inline constexpr Field<uint32_t> kCmdifChecksum{{"cmd_hca_cap.cmdif_checksum", 528, 2}};
inline constexpr Field<bool> kWqSignature{{"cmd_hca_cap.wq_signature", 532, 1}};
inline constexpr Field<bool> kSctrDataCqe{{"cmd_hca_cap.sctr_data_cqe", 533, 1}};
inline constexpr Field<bool> kDct{{"cmd_hca_cap.dct", 538, 1}};
inline constexpr Field<bool> kEthNetOffloads{{"cmd_hca_cap.eth_net_offloads", 540, 1}};
inline constexpr Field<bool> kRoce{{"cmd_hca_cap.roce", 541, 1}};
inline constexpr Field<bool> kAtomic{{"cmd_hca_cap.atomic", 542, 1}};
inline constexpr Field<bool> kCqOi{{"cmd_hca_cap.cq_oi", 544, 1}};
inline constexpr Field<bool> kCqResize{{"cmd_hca_cap.cq_resize", 545, 1}};
inline constexpr Field<bool> kPg{{"cmd_hca_cap.pg", 551, 1}};
inline constexpr Field<bool> kBlockLbMc{{"cmd_hca_cap.block_lb_mc", 552, 1}};
inline constexpr Field<bool> kCd{{"cmd_hca_cap.cd", 556, 1}};
inline constexpr Field<bool> kApm{{"cmd_hca_cap.apm", 558, 1}};
inline constexpr Field<bool> kUmrPtrRlkey{{"cmd_hca_cap.umr_ptr_rlkey", 560, 1}};
inline constexpr Field<bool> kImaicl{{"cmd_hca_cap.imaicl", 561, 1}};
inline constexpr Field<bool> kQpPacketBased{{"cmd_hca_cap.qp_packet_based", 562, 1}};
inline constexpr Field<bool> kQkv{{"cmd_hca_cap.qkv", 566, 1}};
inline constexpr Field<bool> kPkv{{"cmd_hca_cap.pkv", 567, 1}};
inline constexpr Field<bool> kXrc{{"cmd_hca_cap.xrc", 572, 1}};
inline constexpr Field<bool> kUd{{"cmd_hca_cap.ud", 573, 1}};
inline constexpr Field<bool> kUc{{"cmd_hca_cap.uc", 574, 1}};
inline constexpr Field<bool> kRc{{"cmd_hca_cap.rc", 575, 1}};
inline constexpr Field<bool> kUar4k{{"cmd_hca_cap.uar_4k", 576, 1}};
inline constexpr Field<uint32_t> kUarSz{{"cmd_hca_cap.uar_sz", 586, 6}};
inline constexpr Field<bool> kUmemUid0{{"cmd_hca_cap.umem_uid_0", 594, 1}};
inline constexpr Field<uint32_t> kLogPgSz{{"cmd_hca_cap.log_pg_sz", 600, 8}};
inline constexpr Field<bool> kBf{{"cmd_hca_cap.bf", 608, 1}};
inline constexpr Field<uint32_t> kLogBfRegSize{{"cmd_hca_cap.log_bf_reg_size", 619, 5}};
inline constexpr Field<bool> kLagTxPortAffinity{{"cmd_hca_cap.lag_tx_port_affinity", 632, 1}};
inline constexpr Field<uint32_t> kNumLagPorts{{"cmd_hca_cap.num_lag_ports", 636, 4}};
inline constexpr Field<uint32_t> kMaxWqeSzSq{{"cmd_hca_cap.max_wqe_sz_sq", 656, 16}};
inline constexpr Field<uint32_t> kMaxWqeSzRq{{"cmd_hca_cap.max_wqe_sz_rq", 688, 16}};
inline constexpr Field<uint32_t> kMaxWqeSzSqDc{{"cmd_hca_cap.max_wqe_sz_sq_dc", 720, 16}};
inline constexpr Field<uint32_t> kMaxQpMcg{{"cmd_hca_cap.max_qp_mcg", 743, 25}};
inline constexpr Field<uint32_t> kLogMaxMcg{{"cmd_hca_cap.log_max_mcg", 792, 8}};
inline constexpr Field<bool> kPciRelaxedOrderedRead{{"cmd_hca_cap.pci_relaxed_ordered_read", 810, 1}};
inline constexpr Field<uint32_t> kLogMaxPd{{"cmd_hca_cap.log_max_pd", 811, 5}};
inline constexpr Field<bool> kDpOrderingOooAllRc{{"cmd_hca_cap.dp_ordering_ooo_all_rc", 820, 1}};
inline constexpr Field<uint32_t> kLogMaxXrcd{{"cmd_hca_cap.log_max_xrcd", 827, 5}};
inline constexpr Field<uint32_t> kLogMaxRq{{"cmd_hca_cap.log_max_rq", 867, 5}};
inline constexpr Field<uint32_t> kLogMaxSq{{"cmd_hca_cap.log_max_sq", 875, 5}};
inline constexpr Field<bool> kBasicCyclicRcvWqe{{"cmd_hca_cap.basic_cyclic_rcv_wqe", 896, 1}};
inline constexpr Field<bool> kMkcOrderWriteAfterWriteRoOnly{
    {"cmd_hca_cap.mkc_order_write_after_write_ro_only", 937, 1}};
inline constexpr Field<uint32_t> kLogMaxWqSz{{"cmd_hca_cap.log_max_wq_sz", 987, 5}};
inline constexpr Field<uint64_t> kGeneralObjTypes{{"cmd_hca_cap.general_obj_types", 1024, 64}};
inline constexpr Field<uint32_t> kSqTsFormat{{"cmd_hca_cap.sq_ts_format", 1088, 2}};
inline constexpr Field<uint32_t> kRqTsFormat{{"cmd_hca_cap.rq_ts_format", 1090, 2}};
inline constexpr Field<uint32_t> kMaxNumEqs{{"cmd_hca_cap.max_num_eqs", 1136, 16}};
inline constexpr Field<uint32_t> kLogUarPageSz{{"cmd_hca_cap.log_uar_page_sz", 1168, 16}};
inline constexpr Field<uint32_t> kDeviceFrequencyMhz{{"cmd_hca_cap.device_frequency_mhz", 1216, 32}};
inline constexpr Field<uint32_t> kDeviceFrequencyKhz{{"cmd_hca_cap.device_frequency_khz", 1248, 32}};
inline constexpr Field<uint32_t> kNumOfUarsPerPage{{"cmd_hca_cap.num_of_uars_per_page", 1312, 32}};
inline constexpr Field<uint32_t> kLogMaxDctConnections{{"cmd_hca_cap.log_max_dct_connections", 1403, 5}};
inline constexpr Field<uint32_t> kLogMaxAtomicSizeDc{{"cmd_hca_cap.log_max_atomic_size_dc", 1432, 8}};
inline constexpr Field<uint32_t> kLogMaxAtomicSizeQp{{"cmd_hca_cap.log_max_atomic_size_qp", 1408, 8}};
inline constexpr Field<uint32_t> kLogMaxDciStreamChannels{
    {"cmd_hca_cap.log_max_dci_stream_channels", 1419, 5}};
inline constexpr Field<uint32_t> kNativePortNum{{"cmd_hca_cap.native_port_num", 1544, 8}};
inline constexpr Field<bool> kWaitOnData{{"cmd_hca_cap.wait_on_data", 1675, 1}};
inline constexpr Field<bool> kWaitOnTime{{"cmd_hca_cap.wait_on_time", 1676, 1}};
}  // namespace cmd_hca_cap

/// General capabilities, second page.
namespace cmd_hca_cap_2 {
inline constexpr Field<bool> kDpOrderingForce{{"cmd_hca_cap_2.dp_ordering_force", 136, 1}};
inline constexpr Field<bool> kSendDbrModeNoDbrExt{{"cmd_hca_cap_2.send_dbr_mode_no_dbr_ext", 737, 1}};
}  // namespace cmd_hca_cap_2

/// Atomic capabilities; sizes are bit masks of log2(bytes).
namespace atomic_caps {
inline constexpr Field<uint32_t> kAtomicReq8BEndiannessMode{
    {"atomic_caps.atomic_req_8B_endianness_mode", 64, 2}};
inline constexpr Field<bool> kSupportedAtomicReq8BEndiannessMode1{
    {"atomic_caps.supported_atomic_req_8B_endianness_mode_1", 70, 1}};
inline constexpr Field<uint32_t> kAtomicOperations{{"atomic_caps.atomic_operations", 144, 16}};
inline constexpr Field<uint32_t> kAtomicSizeQp{{"atomic_caps.atomic_size_qp", 176, 16}};
inline constexpr Field<uint32_t> kAtomicSizeDc{{"atomic_caps.atomic_size_dc", 208, 16}};
inline constexpr Field<uint32_t> kFetchAddPciAtomic{{"atomic_caps.fetch_add_pci_atomic", 640, 16}};
inline constexpr Field<uint32_t> kSwapPciAtomic{{"atomic_caps.swap_pci_atomic", 656, 16}};
inline constexpr Field<uint32_t> kCompareSwapPciAtomic{{"atomic_caps.compare_swap_pci_atomic", 672, 16}};
}  // namespace atomic_caps

/// RoCE capabilities.
namespace roce_cap {
inline constexpr Field<uint32_t> kQpTsFormat{{"roce_cap.qp_ts_format", 30, 2}};
inline constexpr Field<uint32_t> kL3Type{{"roce_cap.l3_type", 140, 4}};
inline constexpr Field<uint32_t> kRoceVersion{{"roce_cap.roce_version", 152, 8}};
inline constexpr Field<uint32_t> kRRoceDestUdpPort{{"roce_cap.r_roce_dest_udp_port", 176, 16}};
inline constexpr Field<uint32_t> kRRoceMaxSrcUdpPort{{"roce_cap.r_roce_max_src_udp_port", 192, 16}};
inline constexpr Field<uint32_t> kRRoceMinSrcUdpPort{{"roce_cap.r_roce_min_src_udp_port", 208, 16}};
inline constexpr Field<uint32_t> kRoceAddressTableSize{{"roce_cap.roce_address_table_size", 240, 16}};
}  // namespace roce_cap

}  // namespace warpverbs::inline v0_2::mlx5
