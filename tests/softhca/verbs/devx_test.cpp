#include "verbs/devx.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace verbs {
namespace {

constexpr uint8_t kBadParameter = 0x3, kBadResource = 0x5, kBadQpState = 0x10;

TEST_F(Devx, WritesAndReportsInARing) {
  CreateQueues(false);
  Connect();
  for (uint32_t i = 0; i < 20'000; ++i) {
    data.As<uint64_t>(0) = i + 1;
    PostWrite(static_cast<uint16_t>(i), 0, 8, data.rkey());
    const mlx5_cqe64 cqe = WaitInRing(i);
    Store(kCqRecord, htobe32((i + 1) & 0xffffff));
    ASSERT_EQ(Opcode(cqe), MLX5_CQE_REQ) << i;
    ASSERT_EQ(be16toh(cqe.wqe_counter), static_cast<uint16_t>(i));
    ASSERT_EQ(be32toh(cqe.srqn_uidx) & 0xffffff, kUserIndex);
    ASSERT_EQ(be32toh(cqe.sop_drop_qpn), MLX5_OPCODE_RDMA_WRITE << 24 | qpn);
    ASSERT_EQ(data.As<uint64_t>(8), i + 1);
  }
}

TEST_F(Devx, CollapsedQueueCountsInItsOnlyEntry) {
  CreateQueues(true);
  Connect();
  for (uint32_t i = 0; i < 70'000; ++i) {
    data.As<uint64_t>(0) = i + 1;
    PostWrite(static_cast<uint16_t>(i), 0, 8, data.rkey());
    WaitFor(kCqRing, [&](const mlx5_cqe64& cqe) {
      return Opcode(cqe) == MLX5_CQE_REQ && be16toh(cqe.wqe_counter) == static_cast<uint16_t>(i);
    });
    ASSERT_EQ(data.As<uint64_t>(8), i + 1);
  }
}

TEST_F(Devx, ErrorReachesTheCompletionWithItsSyndrome) {
  CreateQueues(true);
  Connect();
  PostWrite(0, 0, 8, data.rkey() + 1);
  const mlx5_cqe64 cqe =
      WaitFor(kCqRing, [](const mlx5_cqe64& tail) { return Opcode(tail) == MLX5_CQE_REQ_ERR; });
  EXPECT_EQ(Error(cqe).syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
  EXPECT_EQ(Query().Get("qpc", "qpc.state"), 6u);
}

TEST_F(Devx, QueryReturnsWhatWasSet) {
  CreateQueues(false);
  EXPECT_EQ(Query().Get("qpc", "qpc.state"), 0u);
  Connect();
  const Mailbox out = Query();
  const std::map<std::string, uint64_t> expected = {{"qpc.state", 3},         {"qpc.pd", pdn},
                                                    {"qpc.mtu", 3},           {"qpc.log_sq_size", kLogDepth},
                                                    {"qpc.remote_qpn", qpn},  {"qpc.cqn_snd", cqn},
                                                    {"qpc.retry_count", 7},   {"qpc.rnr_retry", 7},
                                                    {"qpc.rwe", 1},           {"qpc.rre", 1},
                                                    {"qpc.rae", 0},           {"qpc.next_rcv_psn", 0x123456},
                                                    {"qpc.min_rnr_nak", 12},  {"qpc.log_rra_max", 4},
                                                    {"qpc.log_sra_max", 4},   {"qpc.next_send_psn", 0x123456},
                                                    {"ads.vhca_port_num", 1}, {"ads.hop_limit", 64},
                                                    {"ads.ack_timeout", 14},  {"qpc.user_index", kUserIndex}};
  for (const auto& [field, value] : expected) EXPECT_EQ(out.Get("qpc", field), value) << field;
}

TEST_F(Devx, QueryShowsSequenceNumbersAdvance) {
  CreateQueues(false);
  Connect();
  PostWrite(0, 0, 8, data.rkey());
  WaitInRing(0);
  const Mailbox out = Query();
  EXPECT_EQ(out.Get("qpc", "qpc.next_send_psn"), 0x123457u);
  EXPECT_EQ(out.Get("qpc", "qpc.next_rcv_psn"), 0x123457u);
  EXPECT_EQ(out.Get("qpc", "qpc.hw_sq_wqebb_counter"), 1u);
}

TEST_F(Devx, CommandMovesAQueuePairToError) {
  CreateQueues(false);
  Connect();
  EXPECT_EQ(Modify(Mailbox("qp_2err_in", k2Err).Set("qpn", qpn)), 0);
  EXPECT_EQ(Query().Get("qpc", "qpc.state"), 6u);
  PostWrite(0, 0, 8, data.rkey());
  const mlx5_cqe64 cqe = WaitInRing(0);
  EXPECT_EQ(Error(cqe).syndrome, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
}

TEST_F(Devx, RefusesBadParametersWithStatusAndSyndrome) {
  const auto cq_status = [&](const std::function<void(Mailbox&)>& corrupt) {
    Mailbox in = CqCommand(false);
    corrupt(in);
    EXPECT_EQ(Create(in, Mailbox("create_cq_out")), nullptr);
    EXPECT_EQ(errno, EREMOTEIO);
    EXPECT_NE(syndrome, 0u);
    return status;
  };
  EXPECT_EQ(cq_status([](Mailbox& in) { in.Set("cq_context", "cqc.log_cq_size", 31); }), kBadParameter);
  EXPECT_EQ(cq_status([](Mailbox& in) { in.Set("cq_umem_offset", kBytes); }), kBadParameter);
  EXPECT_EQ(cq_status([](Mailbox& in) { in.Set("cq_context", "cqc.dbr_addr", kBytes - 4); }), kBadParameter);
  EXPECT_EQ(cq_status([](Mailbox& in) { in.Set("cq_umem_id", 0x777); }), kBadResource);
  EXPECT_EQ(cq_status([](Mailbox& in) { in.Set("cq_context", "cqc.uar_page", 0x777); }), kBadResource);

  CreateQueues(false);
  const auto qp_status = [&](const std::function<void(Mailbox&)>& corrupt) {
    Mailbox in = QpCommand();
    corrupt(in);
    EXPECT_EQ(Create(in, Mailbox("create_qp_out")), nullptr);
    EXPECT_NE(syndrome, 0u);
    return status;
  };
  EXPECT_EQ(qp_status([](Mailbox& in) { in.Set("qpc", "qpc.pd", 0x777); }), kBadResource);
  EXPECT_EQ(qp_status([](Mailbox& in) { in.Set("qpc", "qpc.cqn_snd", 0x777); }), kBadResource);
  EXPECT_EQ(qp_status([](Mailbox& in) { in.Set("qpc", "qpc.log_sq_size", 15); }), kBadParameter);
  EXPECT_EQ(qp_status([](Mailbox& in) { in.Set("qpc", "qpc.st", 2); }), kBadParameter);
}

TEST_F(Devx, RefusesTransitionsOutOfOrderWithAStatus) {
  CreateQueues(false);
  EXPECT_EQ(Modify(ToRts()), kBadQpState);
  EXPECT_EQ(Modify(ToRtr()), kBadQpState);
  EXPECT_EQ(Modify(ToInit()), 0);
  EXPECT_EQ(Modify(ToRtr().Set("qpc", "qpc.mtu", 7)), kBadParameter);
  EXPECT_EQ(Modify(ToRtr()), 0);
  EXPECT_EQ(Modify(ToRtr()), kBadQpState);
}

TEST_F(Devx, RefusesToDestroyObjectsInUse) {
  CreateQueues(false);
  EXPECT_NE(mlx5dv_devx_obj_destroy(cq.get()), 0);
  EXPECT_NE(mlx5dv_devx_umem_dereg(umem.get()), 0);
  Connect();
  PostWrite(0, 0, 8, data.rkey());
  WaitInRing(0);
}

TEST_F(Devx, RefusesAnUnknownCommand) {
  Mailbox in("query_qp_in", 0xfff), out("query_qp_out");
  EXPECT_NE(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), out.data(), out.size()), 0);
}

TEST_F(Devx, ReportsTheCapabilitiesOfAConnectX7) {
  Mailbox in("query_hca_cap_in", 0x100), out("query_hca_cap_out");
  ASSERT_EQ(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), out.data(), out.size()), 0);
  EXPECT_EQ(out.Get("capability", "cmd_hca_cap.port_type"), 1u);
  EXPECT_GE(out.Get("capability", "cmd_hca_cap.log_max_qp_sz"), 15u);
  EXPECT_EQ(out.Get("capability", "cmd_hca_cap.num_ports"), 1u);
  EXPECT_EQ(out.Get("capability", "cmd_hca_cap.cd"), 1u);
}

}  // namespace
}  // namespace verbs
