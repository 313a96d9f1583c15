#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <array>
#include <chrono>
#include <cstring>

#include "verbs/peer.hpp"

namespace verbs {
namespace {

constexpr uint64_t kOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

/// A queue pair that is posted to by ibv_wr_*(), and by raw WQEs of the program.
class WorkRequestApi : public TwoPeers {
 protected:
  WorkRequestApi() {
    ibv_qp_init_attr_ex init{};
    init.send_cq = a.send_cq.get();
    init.recv_cq = a.receive_cq.get();
    init.qp_type = IBV_QPT_RC;
    init.cap = {
        .max_send_wr = 16, .max_recv_wr = 4, .max_send_sge = 4, .max_recv_sge = 1, .max_inline_data = 200};
    init.pd = a.pd.get();
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = kOperations;
    mlx5dv_qp_init_attr extra{};
    extra.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
    extra.send_ops_flags = MLX5DV_QP_EX_WITH_RAW_WQE;
    a.qp.reset(mlx5dv_create_qp(context_a.get(), &init, &extra));
    if (a.qp == nullptr) throw std::runtime_error("the queue pair cannot be created");
    ex = ibv_qp_to_qp_ex(a.qp.get());
    ex->wr_flags = IBV_SEND_SIGNALED;
    Connect();
  }
  ibv_wc Complete() {
    Publish(a.qp.get());
    EXPECT_EQ(ibv_wr_complete(ex), 0);
    return Wait(a.send_cq.get());
  }
  void SetSge(size_t offset, uint32_t bytes) {
    const ibv_sge sge = local.Sge(offset, bytes);
    ibv_wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
  }
  /// Posts a raw WQE: a control segment, then `segments`.
  template <class... Segments>
  ibv_wc PostRaw(uint8_t opmod, uint8_t opcode, const Segments&... segments) {
    std::array<uint8_t, 128> wqe{};
    mlx5_wqe_ctrl_seg ctrl{};
    size_t bytes = sizeof ctrl;
    [[maybe_unused]] const auto add = [&](const auto& segment) {
      std::memcpy(wqe.data() + bytes, &segment, sizeof segment);
      bytes += sizeof segment;
    };
    (add(segments), ...);
    ctrl.opmod_idx_opcode = htobe32(uint32_t{opmod} << 24 | opcode);
    ctrl.qpn_ds = htobe32(a.qp->qp_num << 8 | static_cast<uint32_t>(bytes / 16));
    ctrl.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
    std::memcpy(wqe.data(), &ctrl, sizeof ctrl);
    ibv_wr_start(ex);
    mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), wqe.data());
    return Complete();
  }
  mlx5_wqe_raddr_seg Remote(size_t offset) {
    return {.raddr = htobe64(remote.Address(offset)), .rkey = htobe32(remote.rkey()), .reserved = 0};
  }
  mlx5_wqe_data_seg Answer(uint32_t bytes) {
    const ibv_sge sge = local.Sge(0, bytes);
    return {.byte_count = htobe32(bytes), .lkey = htobe32(sge.lkey), .addr = htobe64(sge.addr)};
  }

  ibv_qp_ex* ex = nullptr;
};

constexpr uint8_t kFourBytes = 8, kEightBytes = 9;  // opcode modifiers of masked atomics

TEST_F(WorkRequestApi, WritesToThePeer) {
  local.Put(0, "written");
  ibv_wr_start(ex);
  ex->wr_id = 31;
  ibv_wr_rdma_write(ex, remote.rkey(), remote.Address(10));
  SetSge(0, 7);
  const ibv_wc wc = Complete();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 31u);
  EXPECT_EQ(remote.Text(10, 7), "written");
}

TEST_F(WorkRequestApi, WritesInlineDataWithImmediate) {
  b.PostReceive({});
  std::string text(190, 'i');
  ibv_wr_start(ex);
  ibv_wr_rdma_write_imm(ex, remote.rkey(), remote.Address(), htobe32(6));
  ibv_wr_set_inline_data(ex, text.data(), text.size());
  EXPECT_EQ(Complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(be32toh(Wait(b.receive_cq.get()).imm_data), 6u);
  EXPECT_EQ(remote.Text(0, 190), text);
}

TEST_F(WorkRequestApi, SendsAList) {
  local.Put(0, "abcdef");
  b.PostReceive({remote.Sge(0, 64)});
  const std::array<ibv_sge, 3> list = {local.Sge(3, 3), local.Sge(0, 1), local.Sge(1, 2)};
  ibv_wr_start(ex);
  ibv_wr_send(ex);
  ibv_wr_set_sge_list(ex, list.size(), list.data());
  EXPECT_EQ(Complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(Wait(b.receive_cq.get()).byte_len, 6u);
  EXPECT_EQ(remote.Text(0, 6), "defabc");
}

TEST_F(WorkRequestApi, SendsWithImmediate) {
  b.PostReceive({remote.Sge(0, 64)});
  ibv_wr_start(ex);
  ibv_wr_send_imm(ex, htobe32(9));
  SetSge(0, 8);
  EXPECT_EQ(Complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(be32toh(Wait(b.receive_cq.get()).imm_data), 9u);
}

TEST_F(WorkRequestApi, ReadsFromThePeer) {
  remote.Put(0, "read");
  ibv_wr_start(ex);
  ibv_wr_rdma_read(ex, remote.rkey(), remote.Address());
  SetSge(0, 4);
  EXPECT_EQ(Complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(local.Text(0, 4), "read");
}

TEST_F(WorkRequestApi, ExecutesAtomics) {
  remote.As<uint64_t>() = 1;
  ibv_wr_start(ex);
  ibv_wr_atomic_fetch_add(ex, remote.rkey(), remote.Address(), 4);
  SetSge(0, 8);
  EXPECT_EQ(Complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(remote.As<uint64_t>(), 5u);
  ibv_wr_start(ex);
  ibv_wr_atomic_cmp_swp(ex, remote.rkey(), remote.Address(), 5, 50);
  SetSge(0, 8);
  EXPECT_EQ(Complete().status, IBV_WC_SUCCESS);
  EXPECT_EQ(local.As<uint64_t>(), 5u);
  EXPECT_EQ(remote.As<uint64_t>(), 50u);
}

TEST_F(WorkRequestApi, PostsSeveralRequestsByOneDoorbell) {
  ibv_wr_start(ex);
  for (uint64_t i = 0; i < 8; ++i) {
    local.As<uint64_t>(i * 8) = i + 1;
    ex->wr_id = i;
    ibv_wr_rdma_write(ex, remote.rkey(), remote.Address(i * 8));
    SetSge(i * 8, 8);
  }
  EXPECT_EQ(Complete().wr_id, 0u);
  for (uint64_t i = 1; i < 8; ++i) EXPECT_EQ(Wait(a.send_cq.get()).wr_id, i);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(remote.As<uint64_t>(i * 8), i + 1);
}

TEST_F(WorkRequestApi, DropsAbortedRequests) {
  local.As<uint64_t>() = 1;
  ibv_wr_start(ex);
  ibv_wr_rdma_write(ex, remote.rkey(), remote.Address());
  SetSge(0, 8);
  ibv_wr_abort(ex);
  ibv_wr_start(ex);
  ex->wr_id = 2;
  ibv_wr_rdma_write(ex, remote.rkey(), remote.Address(8));
  SetSge(0, 8);
  EXPECT_EQ(Complete().wr_id, 2u);
  EXPECT_EQ(remote.As<uint64_t>(), 0u);
  EXPECT_EQ(remote.As<uint64_t>(8), 1u);
}

TEST_F(WorkRequestApi, CompletesANop) {
  const ibv_wc wc = PostRaw(0, MLX5_OPCODE_NOP);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
}

TEST_F(WorkRequestApi, ExecutesAMaskedCompareSwapOf4Bytes) {
  struct {
    __be32 swap, compare, swap_mask, compare_mask;
  } const operands = {htobe32(0xaaaaaaaa), htobe32(0x44), htobe32(0xff0000), htobe32(0xff)};
  remote.As<uint32_t>(4) = 0x11223344;
  EXPECT_EQ(PostRaw(kFourBytes, MLX5_OPCODE_ATOMIC_MASKED_CS, Remote(4), operands, Answer(4)).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(local.As<uint32_t>(), htobe32(0x11223344)) << "4 bytes come big-endian";
  EXPECT_EQ(remote.As<uint32_t>(4), 0x11aa3344u);
}

TEST_F(WorkRequestApi, ExecutesAMaskedCompareSwapOf8Bytes) {
  struct {
    __be64 swap, compare, swap_mask, compare_mask;
  } const operands = {htobe64(~uint64_t{0}), htobe64(0x10), htobe64(0xf0000000f), htobe64(0xf0)};
  remote.As<uint64_t>(8) = 0x12;
  EXPECT_EQ(PostRaw(kEightBytes, MLX5_OPCODE_ATOMIC_MASKED_CS, Remote(8), operands, Answer(8)).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(local.As<uint64_t>(), 0x12u);
  EXPECT_EQ(remote.As<uint64_t>(8), 0xf0000001fu);
}

TEST_F(WorkRequestApi, ExecutesAMaskedFetchAddOf4Bytes) {
  struct {
    __be32 add, boundary;
    uint8_t reserved[8];
  } const operands = {htobe32(0x00010001), htobe32(0x80008000), {}};
  remote.As<uint32_t>(4) = 0xffff0001;
  EXPECT_EQ(PostRaw(kFourBytes, MLX5_OPCODE_ATOMIC_MASKED_FA, Remote(4), operands, Answer(4)).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(local.As<uint32_t>(), htobe32(0xffff0001)) << "4 bytes come big-endian";
  EXPECT_EQ(remote.As<uint32_t>(4), 0x00000002u);
}

TEST_F(WorkRequestApi, ExecutesAMaskedFetchAddOf8Bytes) {
  struct {
    __be64 add, boundary;
  } const operands = {htobe64(1), htobe64(0x80000000)};
  remote.As<uint64_t>() = 0x1ffffffff;
  EXPECT_EQ(PostRaw(kEightBytes, MLX5_OPCODE_ATOMIC_MASKED_FA, Remote(0), operands, Answer(8)).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(remote.As<uint64_t>(), 0x100000000u);
}

TEST_F(WorkRequestApi, RefusesAnUnknownOpcode) { EXPECT_EQ(PostRaw(0, 0x3f).status, IBV_WC_LOC_QP_OP_ERR); }

/// A completion queue that is polled field by field.
class ExtendedCq : public TwoPeers {
 protected:
  ExtendedCq() {
    ibv_cq_init_attr_ex init{};
    init.cqe = 64;
    init.wc_flags = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    cq = ibv_create_cq_ex(context_b.get(), &init);
    if (cq == nullptr) throw std::runtime_error("the completion queue cannot be created");
    b.qp.reset();
    b.receive_cq.reset(ibv_cq_ex_to_cq(cq));
    ibv_qp_init_attr qp{};
    qp.send_cq = b.send_cq.get();
    qp.recv_cq = b.receive_cq.get();
    qp.qp_type = IBV_QPT_RC;
    qp.cap = {
        .max_send_wr = 4, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    b.qp.reset(ibv_create_qp(b.pd.get(), &qp));
    Connect();
  }
  /// Starts a batch once a completion is available.
  void StartPoll() {
    ibv_poll_cq_attr attr{};
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (ibv_start_poll(cq, &attr) == ENOENT) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no completion";
    }
  }

  ibv_cq_ex* cq = nullptr;
};

TEST_F(ExtendedCq, ReportsEachFieldInABatch) {
  for (uint64_t id = 0; id < 8; ++id) b.PostReceive({remote.Sge(0, 64)}, id);
  for (uint32_t i = 0; i < 8; ++i) {
    ASSERT_EQ(Work(IBV_WR_SEND_WITH_IMM, {local.Sge(0, i + 1)}).Imm(i).Run(a).status, IBV_WC_SUCCESS);
  }
  StartPoll();
  uint64_t last_timestamp = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    if (i != 0) {
      ASSERT_EQ(ibv_next_poll(cq), 0);
    }
    EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
    EXPECT_EQ(cq->wr_id, i);
    EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
    EXPECT_EQ(ibv_wc_read_byte_len(cq), i + 1);
    EXPECT_EQ(be32toh(ibv_wc_read_imm_data(cq)), i);
    EXPECT_EQ(ibv_wc_read_wc_flags(cq), static_cast<unsigned>(IBV_WC_WITH_IMM));
    EXPECT_EQ(ibv_wc_read_qp_num(cq), b.qp->qp_num);
    EXPECT_GT(ibv_wc_read_completion_ts(cq), last_timestamp);
    last_timestamp = ibv_wc_read_completion_ts(cq);
  }
  EXPECT_EQ(ibv_next_poll(cq), ENOENT);
  ibv_end_poll(cq);
}

TEST_F(ExtendedCq, TimestampsConvertToTheTimeOfDay) {
  using std::chrono::system_clock;
  mlx5dv_clock_info clock{};
  ASSERT_EQ(mlx5dv_get_clock_info(context_b.get(), &clock), 0);
  b.PostReceive({remote.Sge(0, 64)});
  const auto before = system_clock::now();
  ASSERT_EQ(Work(IBV_WR_SEND, {local.Sge(0, 1)}).Run(a).status, IBV_WC_SUCCESS);
  StartPoll();
  const auto after = system_clock::now();
  const system_clock::time_point completed(
      std::chrono::nanoseconds(mlx5dv_ts_to_ns(&clock, ibv_wc_read_completion_ts(cq))));
  ibv_end_poll(cq);
  constexpr std::chrono::milliseconds kAdjusted(100);  // the time of day is adjusted, the card's clock is not
  EXPECT_GT(completed, before - kAdjusted);
  EXPECT_LT(completed, after + kAdjusted);
}

TEST(Lag, OperationsAreUnsupportedOnUnbondedPorts) {
  const Context context = Open();
  Peer peer(context.get());
  uint8_t port = 0, active = 0;
  EXPECT_EQ(mlx5dv_query_qp_lag_port(peer.qp.get(), &port, &active), EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_modify_qp_lag_port(peer.qp.get(), 1), EOPNOTSUPP);
}

TEST(SwitchPort, DoesNotExist) {
  const Context context = Open();
  mlx5dv_port port{};
  EXPECT_EQ(mlx5dv_query_port(context.get(), 1, &port), 0);
  EXPECT_EQ(port.flags, 0u);
  EXPECT_EQ(mlx5dv_query_port(context.get(), 2, &port), EINVAL);
}

TEST(WideCq, HoldsCompletionsOf128Bytes) {
  const Context context = Open();
  Peer a(context.get()), b(context.get());
  ibv_cq_init_attr_ex init{};
  init.cqe = 4;
  mlx5dv_cq_init_attr extra{};
  extra.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  extra.cqe_size = 128;
  ibv_cq_ex* const wide = mlx5dv_create_cq(context.get(), &init, &extra);
  ASSERT_NE(wide, nullptr);
  a.qp.reset();
  a.send_cq.reset(ibv_cq_ex_to_cq(wide));
  ibv_qp_init_attr qp{};
  qp.send_cq = qp.recv_cq = a.send_cq.get();
  qp.qp_type = IBV_QPT_RC;
  qp.cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  a.qp.reset(ibv_create_qp(a.pd.get(), &qp));
  a.Connect(b);
  b.Connect(a);
  Buffer local(a.pd.get(), 8), remote(b.pd.get(), 8);
  for (uint64_t id = 0; id < 100; ++id) {
    if (id == 50) {
      ASSERT_EQ(ibv_resize_cq(a.send_cq.get(), 20), 0);
    }
    const ibv_wc wc = Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote).Id(id).Run(a);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(wc.wr_id, id);
  }
}

TEST_F(ExtendedCq, ReportsErrors) {
  b.PostReceive({remote.Sge(0, 4)}, 5);
  EXPECT_EQ(Work(IBV_WR_SEND, {local.Sge(0, 5)}).Run(a).status, IBV_WC_REM_INV_REQ_ERR);
  StartPoll();
  EXPECT_EQ(cq->status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(cq->wr_id, 5u);
  ibv_end_poll(cq);
}

}  // namespace
}  // namespace verbs
