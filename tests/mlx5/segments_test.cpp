// Compares the memory layouts that hardware reads and writes with rdma-core's mlx5dv.h and the tables in
// tests/data/prm.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <cstring>

#include "prm.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/doorbell.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::mlx5 {
namespace {

template <class Struct, class Member>
prm::Place PlaceOf(Member Struct::*member) {
  const Struct object{};
  const auto* start = reinterpret_cast<const char*>(&object);
  const auto* at = reinterpret_cast<const char*>(&(object.*member));
  return {static_cast<uint32_t>(8 * (at - start)), static_cast<uint32_t>(8 * sizeof(Member))};
}

// Expects a member of ours at the table's offset.
template <class Ours, class Member>
void Expect(const char* name, Member Ours::*ours) {
  EXPECT_EQ(PlaceOf(ours), prm::FieldAt(name)) << name;
}

// Expects it at rdma-core's offset, too.
template <class Ours, class Member, class Theirs, class TheirMember>
void Expect(const char* name, Member Ours::*ours, TheirMember Theirs::*theirs) {
  Expect(name, ours);
  EXPECT_EQ(PlaceOf(ours), PlaceOf(theirs)) << name;
  EXPECT_EQ(sizeof(Ours), sizeof(Theirs)) << name;
}

template <class Ours>
void ExpectSize(const char* name) {
  EXPECT_EQ(8 * sizeof(Ours), prm::FieldAt(std::string(name) + ".@sizeof").width) << name;
}

TEST(Wqe, LaysOutTheControlSegment) {
  ExpectSize<CtrlSegment>("ctrl_seg");
  Expect("ctrl_seg.opmod_idx_opcode", &CtrlSegment::opmod_index_opcode, &mlx5_wqe_ctrl_seg::opmod_idx_opcode);
  Expect("ctrl_seg.qpn_ds", &CtrlSegment::qpn_ds, &mlx5_wqe_ctrl_seg::qpn_ds);
  Expect("ctrl_seg.signature", &CtrlSegment::signature, &mlx5_wqe_ctrl_seg::signature);
  Expect("ctrl_seg.fm_ce_se", &CtrlSegment::fm_ce_se, &mlx5_wqe_ctrl_seg::fm_ce_se);
  Expect("ctrl_seg.imm", &CtrlSegment::imm, &mlx5_wqe_ctrl_seg::imm);
  // One 16-bit field at an odd address there, two bytes here.
  const prm::Place stream = prm::FieldAt("ctrl_seg.dci_stream_channel_id");
  EXPECT_EQ(PlaceOf(&CtrlSegment::dci_stream_high), (prm::Place{stream.bit, 8}));
  EXPECT_EQ(PlaceOf(&CtrlSegment::dci_stream_low), (prm::Place{stream.bit + 8, 8}));
}

TEST(Wqe, ControlSegmentEqualsRdmaCores) {
  mlx5_wqe_ctrl_seg theirs{};
  mlx5dv_set_ctrl_seg(&theirs, 0xabcd, MLX5_OPCODE_RDMA_WRITE, 0, 0x123456, MLX5_WQE_CTRL_CQ_UPDATE, 3, 0, 0);
  const CtrlSegment ours{
      .opmod_index_opcode = ToBe32(0xabcd << 8 | static_cast<uint32_t>(WqeOpcode::kRdmaWrite)),
      .qpn_ds = ToBe32(0x123456 << 8 | 3),
      .signature = 0,
      .dci_stream_high = 0,
      .dci_stream_low = 0,
      .fm_ce_se = kCqeAlways,
      .imm = {}};
  EXPECT_EQ(std::memcmp(&ours, &theirs, sizeof ours), 0);
}

TEST(Wqe, LaysOutTheRemoteAddressSegment) {
  ExpectSize<RemoteAddressSegment>("raddr_seg");
  Expect("raddr_seg.raddr", &RemoteAddressSegment::address, &mlx5_wqe_raddr_seg::raddr);
  Expect("raddr_seg.rkey", &RemoteAddressSegment::rkey, &mlx5_wqe_raddr_seg::rkey);
}

TEST(Wqe, LaysOutTheDatagramSegment) {  // the tables of tests/data/prm have none
  const auto expect = [](auto ours, auto theirs) { EXPECT_EQ(PlaceOf(ours), PlaceOf(theirs)); };
  EXPECT_EQ(sizeof(DatagramSegment), sizeof(mlx5_wqe_datagram_seg));
  expect(&DatagramSegment::dest_qpn, &mlx5_wqe_av::dqp_dct);
  expect(&DatagramSegment::rate_sl, &mlx5_wqe_av::stat_rate_sl);
  expect(&DatagramSegment::path_bits, &mlx5_wqe_av::fl_mlid);
  expect(&DatagramSegment::lid_udp_sport, &mlx5_wqe_av::rlid);
  expect(&DatagramSegment::mac, &mlx5_wqe_av::rmac);
  expect(&DatagramSegment::traffic_class, &mlx5_wqe_av::tclass);
  expect(&DatagramSegment::hop_limit, &mlx5_wqe_av::hop_limit);
  expect(&DatagramSegment::grh_gid_flow, &mlx5_wqe_av::grh_gid_fl);
  expect(&DatagramSegment::gid, &mlx5_wqe_av::rgid);
  EXPECT_EQ(PlaceOf(&DatagramSegment::qkey).bit, 0u);
  EXPECT_EQ(PlaceOf(&DatagramSegment::dc_key_low), (prm::Place{32, 32}));  // av.key.dc_key has 64 bits
  EXPECT_EQ(kExtendedAddress, uint32_t{MLX5_EXTENDED_UD_AV});
}

TEST(Wqe, LaysOutTheSegmentsOfAUmr) {  // the tables of tests/data/prm have none
  const auto expect = [](auto ours, auto theirs) { EXPECT_EQ(PlaceOf(ours), PlaceOf(theirs)); };
  EXPECT_EQ(sizeof(UmrControlSegment), sizeof(mlx5_wqe_umr_ctrl_seg));
  expect(&UmrControlSegment::flags, &mlx5_wqe_umr_ctrl_seg::flags);
  expect(&UmrControlSegment::klm_octowords, &mlx5_wqe_umr_ctrl_seg::klm_octowords);
  expect(&UmrControlSegment::translation_offset, &mlx5_wqe_umr_ctrl_seg::translation_offset);
  expect(&UmrControlSegment::mkey_mask, &mlx5_wqe_umr_ctrl_seg::mkey_mask);
  EXPECT_EQ(sizeof(MkeySegment), sizeof(mlx5_wqe_mkey_context_seg));
  expect(&MkeySegment::free, &mlx5_wqe_mkey_context_seg::free);
  expect(&MkeySegment::access_flags, &mlx5_wqe_mkey_context_seg::access_flags);
  expect(&MkeySegment::qpn_mkey, &mlx5_wqe_mkey_context_seg::qpn_mkey);
  expect(&MkeySegment::flags_pd, &mlx5_wqe_mkey_context_seg::flags_pd);
  expect(&MkeySegment::start_address, &mlx5_wqe_mkey_context_seg::start_addr);
  expect(&MkeySegment::length, &mlx5_wqe_mkey_context_seg::len);
  expect(&MkeySegment::translations_octoword_size, &mlx5_wqe_mkey_context_seg::translations_octword_size);
  expect(&MkeySegment::log_page_size, &mlx5_wqe_mkey_context_seg::log_page_size);
  EXPECT_EQ(sizeof(KlmSegment), sizeof(mlx5_wqe_umr_klm_seg));
  expect(&KlmSegment::bytes, &mlx5_wqe_umr_klm_seg::byte_count);
  expect(&KlmSegment::key, &mlx5_wqe_umr_klm_seg::mkey);
  expect(&KlmSegment::address, &mlx5_wqe_umr_klm_seg::address);
  EXPECT_EQ(sizeof(UmrRepeatSegment), sizeof(mlx5_wqe_umr_repeat_block_seg));
  expect(&UmrRepeatSegment::bytes, &mlx5_wqe_umr_repeat_block_seg::byte_count);
  expect(&UmrRepeatSegment::operation, &mlx5_wqe_umr_repeat_block_seg::op);
  expect(&UmrRepeatSegment::repetitions, &mlx5_wqe_umr_repeat_block_seg::repeat_count);
  expect(&UmrRepeatSegment::entries, &mlx5_wqe_umr_repeat_block_seg::num_ent);
  EXPECT_EQ(sizeof(UmrRepeatEntry), sizeof(mlx5_wqe_umr_repeat_ent_seg));
  expect(&UmrRepeatEntry::stride, &mlx5_wqe_umr_repeat_ent_seg::stride);
  expect(&UmrRepeatEntry::bytes, &mlx5_wqe_umr_repeat_ent_seg::byte_count);
  expect(&UmrRepeatEntry::key, &mlx5_wqe_umr_repeat_ent_seg::memkey);
  expect(&UmrRepeatEntry::address, &mlx5_wqe_umr_repeat_ent_seg::va);
}

TEST(Wqe, NumbersTheFlagsOfAUmr) {
  EXPECT_EQ(kUmrCheckQpn, MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN);
  EXPECT_EQ(kUmrTranslationOffset, MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET);
  EXPECT_EQ(kUmrCheckFree, MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE);
  EXPECT_EQ(kUmrInline, MLX5_WQE_UMR_CTRL_FLAG_INLINE);
  EXPECT_EQ(kUmrLength, MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN);
  EXPECT_EQ(kUmrStartAddress, MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR);
  EXPECT_EQ(kUmrKeyByte, MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY);
  EXPECT_EQ(kUmrQpn, MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN);
  EXPECT_EQ(kUmrLocalWrite, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(kUmrRemoteRead, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ);
  EXPECT_EQ(kUmrRemoteWrite, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE);
  EXPECT_EQ(kUmrAtomic, MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC);
  EXPECT_EQ(kUmrFree, MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE);
  EXPECT_EQ(kMkeyFree, MLX5_WQE_MKEY_CONTEXT_FREE);
  EXPECT_EQ(kMkeyLocalRead, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_READ);
  EXPECT_EQ(kMkeyLocalWrite, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE);
  EXPECT_EQ(kMkeyRemoteRead, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ);
  EXPECT_EQ(kMkeyRemoteWrite, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE);
  EXPECT_EQ(kMkeyAtomic, MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC);
}

TEST(Wqe, LaysOutTheDataSegment) {
  ExpectSize<DataSegment>("data_seg");
  Expect("data_seg.byte_count", &DataSegment::bytes, &mlx5_wqe_data_seg::byte_count);
  Expect("data_seg.lkey", &DataSegment::lkey, &mlx5_wqe_data_seg::lkey);
  Expect("data_seg.addr", &DataSegment::address, &mlx5_wqe_data_seg::addr);
}

TEST(Wqe, LaysOutTheInlineSegment) {
  ExpectSize<InlineSegment>("inl_data_seg");
  Expect("inl_data_seg.byte_count", &InlineSegment::bytes, &mlx5_wqe_inl_data_seg::byte_count);
}

TEST(Wqe, LaysOutTheAtomicSegment) {
  ExpectSize<AtomicSegment>("atomic_seg");
  Expect("atomic_seg.swap_add", &AtomicSegment::swap_add, &mlx5_wqe_atomic_seg::swap_add);
  Expect("atomic_seg.compare", &AtomicSegment::compare, &mlx5_wqe_atomic_seg::compare);
}

TEST(Wqe, LaysOutTheMaskedAtomicSegments) {  // mlx5dv.h has none
  ExpectSize<MaskedCompareSwap4Segment>("masked_cs_4B");
  Expect("masked_cs_4B.swap", &MaskedCompareSwap4Segment::swap);
  Expect("masked_cs_4B.compare", &MaskedCompareSwap4Segment::compare);
  Expect("masked_cs_4B.swap_mask", &MaskedCompareSwap4Segment::swap_mask);
  Expect("masked_cs_4B.compare_mask", &MaskedCompareSwap4Segment::compare_mask);
  ExpectSize<MaskedCompareSwap8Segment>("masked_atomic_seg8B_cs");
  Expect("masked_atomic_seg8B_cs.swap_add", &MaskedCompareSwap8Segment::swap);
  Expect("masked_atomic_seg8B_cs.compare", &MaskedCompareSwap8Segment::compare);
  Expect("masked_atomic_seg8B_cs.swap_add_mask", &MaskedCompareSwap8Segment::swap_mask);
  Expect("masked_atomic_seg8B_cs.compare_mask", &MaskedCompareSwap8Segment::compare_mask);
  ExpectSize<MaskedFetchAdd4Segment>("masked_fa_4B");
  Expect("masked_fa_4B.add", &MaskedFetchAdd4Segment::add);
  Expect("masked_fa_4B.filed_boundary", &MaskedFetchAdd4Segment::field_boundary);
  ExpectSize<MaskedFetchAdd8Segment>("masked_fa_8B");
  Expect("masked_fa_8B.add", &MaskedFetchAdd8Segment::add);
  Expect("masked_fa_8B.filed_boundary", &MaskedFetchAdd8Segment::field_boundary);
}

TEST(Wqe, LaysOutTheWaitSegment) {  // mlx5dv.h has none
  ExpectSize<WaitSegment>("wait_seg");
  Expect("wait_seg.max_index", &WaitSegment::max_index);
  Expect("wait_seg.qpn_cqn", &WaitSegment::cqn);
}

TEST(Wqe, LaysOutTheSrqNextSegment) {
  ExpectSize<SrqNextSegment>("srq_next_seg");
  Expect("srq_next_seg.next_wqe_index", &SrqNextSegment::next_wqe_index,
         &mlx5_wqe_srq_next_seg::next_wqe_index);
  Expect("srq_next_seg.signature", &SrqNextSegment::signature, &mlx5_wqe_srq_next_seg::signature);
}

TEST(Wqe, HasRdmaCoresConstants) {
  EXPECT_EQ(kWqebbBytes, MLX5_SEND_WQE_BB);
  EXPECT_EQ(sizeof(Wqebb), MLX5_SEND_WQE_BB);
  EXPECT_EQ(alignof(Wqebb), MLX5_SEND_WQE_BB);
  EXPECT_EQ(kSegmentBytes, sizeof(mlx5_wqe_data_seg));
  EXPECT_EQ(kMaxSegments, (1u << prm::FieldAt("ctrl_seg.ds").width) - 1);
  EXPECT_EQ(kInlineFlag, MLX5_INLINE_SEG);
  EXPECT_EQ(kInvalidLkey, MLX5_INVALID_LKEY);
  EXPECT_EQ(kMaxDataBytes, 1u << 31);
  const prm::Place flags = prm::FieldAt("ctrl_seg.fm_ce_se");
  const prm::Place completion = prm::FieldAt("ctrl_seg.ce");
  EXPECT_EQ(kCompletionMask, ((1u << completion.width) - 1)
                                 << (flags.bit + flags.width - completion.bit - completion.width));
}

TEST(Cqe, LaysOutASuccess) {
  ExpectSize<Cqe64>("cqe64");
  Expect("cqe64.ml_path", &Cqe64::ml_path, &mlx5_cqe64::ml_path);
  Expect("cqe64.slid", &Cqe64::slid, &mlx5_cqe64::slid);
  Expect("cqe64.flags_rqpn", &Cqe64::flags_rqpn, &mlx5_cqe64::flags_rqpn);
  Expect("cqe64.srqn_uidx", &Cqe64::srqn_uidx, &mlx5_cqe64::srqn_uidx);
  Expect("cqe64.imm_inval_pkey", &Cqe64::imm, &mlx5_cqe64::imm_inval_pkey);
  Expect("cqe64.byte_cnt", &Cqe64::byte_count, &mlx5_cqe64::byte_cnt);
  Expect("cqe64.timestamp", &Cqe64::timestamp, &mlx5_cqe64::timestamp);
  Expect("cqe64.sop_drop_qpn", &Cqe64::sop_qpn, &mlx5_cqe64::sop_drop_qpn);
  Expect("cqe64.wqe_counter", &Cqe64::wqe_counter, &mlx5_cqe64::wqe_counter);
  Expect("cqe64.signature", &Cqe64::signature, &mlx5_cqe64::signature);
  Expect("cqe64.op_own", &Cqe64::op_own, &mlx5_cqe64::op_own);
}

TEST(Cqe, LaysOutAnError) {
  ExpectSize<ErrorCqe64>("err_cqe");
  Expect("err_cqe.srqn", &ErrorCqe64::srqn_uidx, &mlx5_err_cqe::srqn);
  Expect("err_cqe_ex.hw_err_synd", &ErrorCqe64::hw_syndrome);  // reserved in mlx5dv.h
  Expect("err_cqe_ex.hw_synd_type", &ErrorCqe64::hw_syndrome_type);
  Expect("err_cqe.vendor_err_synd", &ErrorCqe64::vendor_syndrome, &mlx5_err_cqe::vendor_err_synd);
  Expect("err_cqe.syndrome", &ErrorCqe64::syndrome, &mlx5_err_cqe::syndrome);
  Expect("err_cqe.s_wqe_opcode_qpn", &ErrorCqe64::sop_qpn, &mlx5_err_cqe::s_wqe_opcode_qpn);
  Expect("err_cqe.wqe_counter", &ErrorCqe64::wqe_counter, &mlx5_err_cqe::wqe_counter);
  Expect("err_cqe.signature", &ErrorCqe64::signature, &mlx5_err_cqe::signature);
  Expect("err_cqe.op_own", &ErrorCqe64::op_own, &mlx5_err_cqe::op_own);
}

TEST(Cqe, TailHoldsTheFieldsOfAPoll) {
  for (const prm::Place place : {PlaceOf(&ErrorCqe64::hw_syndrome), PlaceOf(&ErrorCqe64::syndrome),
                                 PlaceOf(&Cqe64::wqe_counter), PlaceOf(&Cqe64::op_own)}) {
    EXPECT_GE(place.bit / 8, kCqeTailOffset);
    EXPECT_LT(place.bit / 8, kCqeTailOffset + 16);
  }
}

TEST(Doorbell, LaysOutTheRecords) {
  ExpectSize<QpDbr>("qp_dbr");
  Expect("qp_dbr.rcv_counter", &QpDbr::receive);
  Expect("qp_dbr.snd_counter", &QpDbr::send);
  EXPECT_EQ(PlaceOf(&QpDbr::receive).bit, 32 * MLX5_RCV_DBR);
  EXPECT_EQ(PlaceOf(&QpDbr::send).bit, 32 * MLX5_SND_DBR);
  ExpectSize<CqDbr>("cq_dbr");
  Expect("cq_dbr.set_ci", &CqDbr::consumer_index);
  Expect("cq_dbr.arm", &CqDbr::arm);
}

TEST(Doorbell, HasRdmaCoresConstants) {
  EXPECT_EQ(kArmSolicitedOnly, MLX5_CQ_DB_REQ_NOT_SOL);
  EXPECT_EQ(kQpDbrIndexMask, (1u << prm::FieldAt("ctrl_seg.wqe_index").width) - 1);
  EXPECT_EQ(kCqDbrIndexMask, kArmSolicitedOnly - 1);  // the bits below the arm word's flags
}

TEST(Doorbell, LaysOutTheUarPage) {
  EXPECT_EQ(8 * kUarPageBytes, prm::FieldAt("uar_page.@sizeof").width);
  EXPECT_EQ(kUarCqDoorbell, MLX5_CQ_DOORBELL);
  EXPECT_EQ(8 * kUarCqDoorbell, prm::FieldAt("uar_page.cq_doorbell").bit);
  for (uint32_t i = 0; i < kUarSendDoorbells; ++i) {
    const uint32_t bit = 8 * (kUarSendDoorbell + i * kUarSendDoorbellStep);
    EXPECT_EQ(bit, prm::FieldAt("uar_page.nc_dedicated_db" + std::to_string(i)).bit);
  }
  EXPECT_EQ(8 * (kUarSendDoorbell + kUarSendDoorbellStep), prm::FieldAt("uar_page.bf_reg0_odd").bit);
}

}  // namespace
}  // namespace warpverbs::mlx5
