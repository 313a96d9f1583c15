#include "verbs/devx.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace verbs {
namespace {

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
  EXPECT_EQ(out.Get("capability", "cmd_hca_cap.dct"), 1u);
  EXPECT_EQ(out.Get("capability", "cmd_hca_cap.log_max_ra_req_dc"), 4u);
  EXPECT_EQ(out.Get("capability", "cmd_hca_cap.log_max_dci_stream_channels"), 0u);
  in.Set("op_mod", 3 << 1 | 1);  // atomics
  ASSERT_EQ(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), out.data(), out.size()), 0);
  EXPECT_EQ(out.Get("capability", "atomic_caps.atomic_size_dc"), 4u | 8u);
}

TEST_F(Devx, ReportsThatThePortsAreNotBonded) {
  Mailbox in("query_qp_in", kQueryLag), out("create_qp_out");
  ASSERT_EQ(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), out.data(), out.size()), 0);
  constexpr size_t kLagContext = 8;
  EXPECT_EQ(std::string(static_cast<const char*>(out.data()) + kLagContext, 8), std::string(8, '\0'));
}

/// A DC target and a DC initiator made by firmware commands. Both complete in rings of the fixture.
class DevxDynamicConnections : public Devx {
 protected:
  static constexpr uint64_t kKey = 0xfedcba9876543210;

  DevxDynamicConnections() {
    CreateCq(false);
    Mailbox in = CqCommand(false).Set("cq_umem_offset", kReceiveCqRing);
    receive_cq = Create(in.Set("cq_context", "cqc.dbr_addr", kReceiveCqRecord), Mailbox("create_cq_out"));
    EXPECT_NE(receive_cq, nullptr) << "status " << int{status};
    receive_cqn = static_cast<uint32_t>(answer.Get("cqn"));
    CreateQp(QpCommand().Set("qpc", "qpc.st", 5));
    mlx5dv_srq number{};
    number.comp_mask = MLX5DV_SRQ_MASK_SRQN;
    mlx5dv_obj object{};
    object.srq = {.in = srq.get(), .out = &number};
    EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_SRQ), 0);
    srqn = number.srqn;
    dct = Create(DctCommand(), Mailbox("create_dct_out"));
    EXPECT_NE(dct, nullptr) << "status " << int{status};
    dctn = static_cast<uint32_t>(answer.Get("dctn"));
  }
  Mailbox DctCommand() const {
    Mailbox in("create_dct_in", kCreateDct);
    const auto set = [&](const char* field, uint64_t value) { in.Set("dct_context_entry", field, value); };
    set("dctc.pd", pdn);
    set("dctc.cqn", receive_cqn);
    set("dctc.srqn_xrqn", srqn);
    set("dctc.dc_access_key", kKey);
    set("dctc.user_index", 0x4321);
    set("dctc.port", 1);
    set("dctc.mtu", 3);
    set("dctc.min_rnr_nak", 12);
    set("dctc.hop_limit", 64);
    set("dctc.rwe", 1);
    return in;
  }
  Mailbox QueryTarget() {
    Mailbox in("query_dct_in", kQueryDct), out("query_dct_out");
    in.Set("dctn", dctn);
    EXPECT_EQ(mlx5dv_devx_obj_query(dct.get(), in.data(), in.size(), out.data(), out.size()), 0);
    return out;
  }
  /// Posts an empty message with immediate data.
  void PostMessage(uint16_t index, uint32_t imm, uint64_t key) {
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(context.get(), 1, 0, &gid), 0);
    mlx5_wqe_datagram_seg segment{};
    segment.av.key.dc_key = htobe64(key);
    segment.av.dqp_dct = htobe32(MLX5_EXTENDED_UD_AV | dctn);
    segment.av.grh_gid_fl = htobe32(1u << 30);
    segment.av.hop_limit = 64;
    std::memcpy(segment.av.rgid, gid.raw, sizeof gid.raw);
    Post(index, {.opcode = MLX5_OPCODE_SEND_IMM, .imm = imm}, segment);
  }
  void PostSharedReceive() {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    Publish(srq.get());
    ASSERT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
  }
  Srq MakeReceives() {
    ibv_srq_init_attr shared{.srq_context = nullptr, .attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0}};
    return Srq(ibv_create_srq(pd.get(), &shared));
  }

  Srq srq = MakeReceives();
  uint32_t receive_cqn = 0, srqn = 0, dctn = 0;
  Object dct;
};

TEST_F(DevxDynamicConnections, MessageReachesTheTarget) {
  Connect();
  PostSharedReceive();
  PostMessage(0, 0xabcd, kKey);
  EXPECT_EQ(Opcode(WaitInRing(0)), MLX5_CQE_REQ);
  const mlx5_cqe64 cqe = WaitInRing(0, kReceiveCqRing);
  EXPECT_EQ(Opcode(cqe), MLX5_CQE_RESP_SEND_IMM);
  EXPECT_EQ(be32toh(cqe.imm_inval_pkey), 0xabcdu);
  EXPECT_EQ(be32toh(cqe.srqn_uidx) & 0xffffff, 0x4321u);
  EXPECT_EQ(be32toh(cqe.sop_drop_qpn) & 0xffffff, dctn);
  EXPECT_EQ(be32toh(cqe.flags_rqpn) & 0xffffff, qpn);
}

TEST_F(DevxDynamicConnections, QueryShowsTheTargetAndCountsWrongKeys) {
  const auto get = [](const Mailbox& out, const char* field) { return out.Get("dctc", field); };
  const Mailbox before = QueryTarget();
  EXPECT_EQ(get(before, "dctc.state"), 0u);
  EXPECT_EQ(get(before, "dctc.dc_access_key"), kKey);
  EXPECT_EQ(get(before, "dctc.srqn_xrqn"), srqn);
  EXPECT_EQ(get(before, "dctc.cqn"), receive_cqn);
  EXPECT_EQ(get(before, "dctc.rwe"), 1u);
  EXPECT_EQ(get(before, "dctc.rre"), 0u);
  EXPECT_EQ(get(before, "dctc.dc_access_key_violation_count"), 0u);
  Connect();
  PostMessage(0, 0, kKey + 1);
  EXPECT_EQ(Error(WaitInRing(0)).syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
  EXPECT_EQ(get(QueryTarget(), "dctc.dc_access_key_violation_count"), 1u);
}

TEST_F(DevxDynamicConnections, DrainedTargetAnswersNobody) {
  ASSERT_EQ(Modify(ToInit()), 0);
  ASSERT_EQ(Modify(ToRtr()), 0);
  ASSERT_EQ(Modify(ToRts().Set("qpc", "qpc.retry_count", 1)), 0);
  Mailbox in("drain_dct_in", kDrainDct), out("drain_dct_out");
  in.Set("dctn", dctn);
  ASSERT_EQ(mlx5dv_devx_obj_modify(dct.get(), in.data(), in.size(), out.data(), out.size()), 0);
  EXPECT_EQ(QueryTarget().Get("dctc", "dctc.state"), 2u);
  PostSharedReceive();
  PostMessage(0, 0, kKey);
  EXPECT_EQ(Error(WaitInRing(0)).syndrome, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
}

TEST_F(DevxDynamicConnections, RefusesBadTargetsAndCommandsOfQueuePairs) {
  const auto refusal = [&](const char* field, uint64_t value) {
    EXPECT_EQ(Create(DctCommand().Set("dct_context_entry", field, value), Mailbox("create_dct_out")),
              nullptr);
    return status;
  };
  EXPECT_EQ(refusal("dctc.pd", 0x777), kBadResource);
  EXPECT_EQ(refusal("dctc.cqn", 0x777), kBadResource);
  EXPECT_EQ(refusal("dctc.srqn_xrqn", 0), kBadResource);
  EXPECT_EQ(refusal("dctc.port", 3), kBadParameter);
  EXPECT_EQ(refusal("dctc.mtu", 7), kBadParameter);
  Mailbox in("qp_2err_in", k2Err), out("create_qp_out");
  in.Set("qpn", dctn);
  EXPECT_NE(mlx5dv_devx_obj_modify(dct.get(), in.data(), in.size(), out.data(), out.size()), 0);
  EXPECT_EQ(QueryTarget().Get("dctc", "dctc.state"), 0u);
}

}  // namespace
}  // namespace verbs
