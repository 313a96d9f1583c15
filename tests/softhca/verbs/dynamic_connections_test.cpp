#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "verbs/peer.hpp"

namespace verbs {
namespace {

constexpr uint8_t kDcGid = 3;  // RoCE v2 over IPv4
constexpr uint64_t kDcKey = 0x1122334455667788;

ibv_ah_attr DcAddress() {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = kDcGid;
  attr.grh.hop_limit = 64;
  return attr;
}

/// A DC target with a shared receive queue and a buffer.
struct Target {
  explicit Target(ibv_context* device, int rights = kAllAccess)
      : context(device), pd(ibv_alloc_pd(device)), cq(ibv_create_cq(device, 256, nullptr, nullptr, 0)) {
    ibv_srq_init_attr shared{.srq_context = nullptr, .attr = {.max_wr = 64, .max_sge = 2, .srq_limit = 0}};
    srq.reset(ibv_create_srq(pd.get(), &shared));
    qp = Create(srq.get());
    EXPECT_NE(qp, nullptr);
    EXPECT_EQ(qp->qp_num, 0u);
    EXPECT_EQ(ToInit(rights), 0);
    EXPECT_EQ(ToRtr(), 0);
    EXPECT_NE(qp->qp_num, 0u);  // a target gets its number last
  }
  Qp Create(ibv_srq* receives) {
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = cq.get();
    init.srq = receives;
    init.qp_type = IBV_QPT_DRIVER;
    init.pd = pd.get();
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    mlx5dv_qp_init_attr extra{};
    extra.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
    extra.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
    extra.dc_init_attr.dct_access_key = kDcKey;
    return Qp(mlx5dv_create_qp(context, &init, &extra));
  }
  int ToInit(int rights) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = static_cast<unsigned>(rights);
    return ibv_modify_qp(qp.get(), &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  int ToRtr(int mask = IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.min_rnr_timer = 1;
    attr.ah_attr = DcAddress();
    return ibv_modify_qp(qp.get(), &attr, mask);
  }
  void PostReceive(size_t offset, uint32_t bytes, uint64_t id = 0) {
    ibv_sge sge = buffer.Sge(offset, bytes);
    ibv_recv_wr wr{.wr_id = id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    Publish(srq.get());
    ASSERT_EQ(ibv_post_srq_recv(srq.get(), &wr, &bad), 0);
  }
  ibv_wc Receive() { return Wait(cq.get()); }

  ibv_context* context;
  Pd pd;
  Cq cq;
  Srq srq;
  Buffer buffer{pd.get(), 65536};
  Qp qp;
};

/// A DC initiator with a buffer.
struct Initiator {
  explicit Initiator(ibv_context* device)
      : pd(ibv_alloc_pd(device)), cq(ibv_create_cq(device, 256, nullptr, nullptr, 0)) {
    ibv_qp_init_attr_ex init{};
    init.send_cq = init.recv_cq = cq.get();
    init.qp_type = IBV_QPT_DRIVER;
    init.cap = {
        .max_send_wr = 64, .max_recv_wr = 0, .max_send_sge = 2, .max_recv_sge = 0, .max_inline_data = 64};
    init.pd = pd.get();
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                          IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    mlx5dv_qp_init_attr extra{};
    extra.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
    extra.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI;
    qp.reset(mlx5dv_create_qp(device, &init, &extra));
    if (qp == nullptr) throw std::runtime_error("the DC initiator cannot be created");
    ibv_ah_attr attr = DcAddress();
    EXPECT_EQ(ibv_query_gid(device, 1, kDcGid, &attr.grh.dgid), 0);
    here.reset(ibv_create_ah(pd.get(), &attr));
    Connect();
  }
  /// Moves the queue pair to RTS; from an error, too.
  void Connect(uint8_t retries = 7, uint8_t rnr_retries = 7) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PATH_MTU), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 12;
    attr.retry_cnt = retries;
    attr.rnr_retry = rnr_retries;
    attr.max_rd_atomic = 4;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }
  using Build = std::function<void(ibv_qp_ex*)>;
  /// Posts an operation to a target.
  void Post(const Target& target, const ibv_sge& sge, const Build& build, uint64_t key = kDcKey) {
    PostTo(target.qp->qp_num, sge, build, key);
  }
  void PostTo(uint32_t dctn, const ibv_sge& sge, const Build& build, uint64_t key = kDcKey) {
    ibv_qp_ex* const ex = ibv_qp_to_qp_ex(qp.get());
    Publish(qp.get());
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED;
    build(ex);
    mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(ex), here.get(), dctn, key);
    ibv_wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
  }
  ibv_wc Done() { return Wait(cq.get()); }

  Pd pd;
  Cq cq;
  Qp qp;
  AddressHandle here;
  Buffer buffer{pd.get(), 65536};
};

class DynamicConnections : public testing::Test {
 protected:
  static void Send(ibv_qp_ex* qp) { ibv_wr_send(qp); }
  static Initiator::Build WriteTo(const Target& target, size_t offset) {
    return [rkey = target.buffer.rkey(), address = target.buffer.Address(offset)](ibv_qp_ex* qp) {
      ibv_wr_rdma_write(qp, rkey, address);
    };
  }
  static Initiator::Build ReadFrom(const Target& target, size_t offset) {
    return [rkey = target.buffer.rkey(), address = target.buffer.Address(offset)](ibv_qp_ex* qp) {
      ibv_wr_rdma_read(qp, rkey, address);
    };
  }
  void ExpectWrites(Initiator& from, Target& to) {
    from.buffer.Put(0, "it works");
    from.Post(to, from.buffer.Sge(0, 8), WriteTo(to, 512));
    EXPECT_EQ(from.Done().status, IBV_WC_SUCCESS);
    EXPECT_EQ(to.buffer.Text(512, 8), "it works");
  }

  Context context = Open();
  Target target{context.get()};
  Initiator initiator{context.get()};
};

TEST_F(DynamicConnections, WriteAndReadLongMessages) {
  for (size_t i = 0; i < 5000; ++i) initiator.buffer[i] = static_cast<uint8_t>(i * 7);
  initiator.Post(target, initiator.buffer.Sge(0, 5000), WriteTo(target, 100));
  ASSERT_EQ(initiator.Done().status, IBV_WC_SUCCESS);
  EXPECT_EQ(target.buffer.Text(100, 5000), initiator.buffer.Text(0, 5000));
  initiator.Post(target, initiator.buffer.Sge(10'000, 5000), ReadFrom(target, 100));
  const ibv_wc wc = initiator.Done();
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.byte_len, 5000u);
  EXPECT_EQ(initiator.buffer.Text(10'000, 5000), initiator.buffer.Text(0, 5000));
}

TEST_F(DynamicConnections, ExecuteAtomics) {
  target.buffer.As<uint64_t>(0) = 40;
  initiator.Post(target, initiator.buffer.Sge(0, 8), [&](ibv_qp_ex* qp) {
    ibv_wr_atomic_fetch_add(qp, target.buffer.rkey(), target.buffer.Address(0), 2);
  });
  ASSERT_EQ(initiator.Done().status, IBV_WC_SUCCESS);
  initiator.Post(target, initiator.buffer.Sge(8, 8), [&](ibv_qp_ex* qp) {
    ibv_wr_atomic_cmp_swp(qp, target.buffer.rkey(), target.buffer.Address(0), 42, 7);
  });
  ASSERT_EQ(initiator.Done().status, IBV_WC_SUCCESS);
  EXPECT_EQ(initiator.buffer.As<uint64_t>(0), 40u);
  EXPECT_EQ(initiator.buffer.As<uint64_t>(8), 42u);
  EXPECT_EQ(target.buffer.As<uint64_t>(0), 7u);
}

TEST_F(DynamicConnections, CompleteSharedReceivesOfTheTarget) {
  target.PostReceive(0, 4096, 11);
  initiator.buffer.Put(0, "datum");
  initiator.Post(target, initiator.buffer.Sge(0, 5),
                 [](ibv_qp_ex* qp) { ibv_wr_send_imm(qp, htobe32(0x12345678)); });
  EXPECT_EQ(initiator.Done().status, IBV_WC_SUCCESS);
  const ibv_wc wc = target.Receive();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.wr_id, 11u);
  EXPECT_EQ(wc.byte_len, 5u);
  EXPECT_EQ(wc.imm_data, htobe32(0x12345678));
  EXPECT_EQ(wc.qp_num, target.qp->qp_num);
  EXPECT_EQ(wc.src_qp, initiator.qp->qp_num);
  EXPECT_EQ(target.buffer.Text(0, 5), "datum");
}

TEST_F(DynamicConnections, OneInitiatorServesManyTargetsInOrder) {
  Target second(context.get()), third(context.get());
  Target* const targets[] = {&target, &second, &third};
  constexpr uint32_t kRounds = 10;
  for (uint32_t i = 0; i < kRounds; ++i) {
    for (Target* const each : targets) each->PostReceive(i * 64, 64, i);
  }
  for (uint32_t i = 0; i < kRounds; ++i) {
    initiator.buffer.As<uint32_t>(i * 4) = 1000 + i;
    for (Target* const each : targets) initiator.Post(*each, initiator.buffer.Sge(i * 4, 4), Send);
  }
  for (uint32_t i = 0; i < kRounds * 3; ++i) ASSERT_EQ(initiator.Done().status, IBV_WC_SUCCESS) << i;
  for (uint32_t i = 0; i < kRounds; ++i) {
    for (Target* const each : targets) {
      EXPECT_EQ(each->Receive().wr_id, i);
      EXPECT_EQ(each->buffer.As<uint32_t>(i * 64), 1000 + i);
    }
  }
}

TEST_F(DynamicConnections, ManyInitiatorsShareATarget) {
  std::vector<std::unique_ptr<Initiator>> initiators;
  constexpr uint32_t kInitiators = 5, kMessages = 8, kMessage = 3000;  // three packets each
  for (uint32_t i = 0; i < kInitiators; ++i) initiators.push_back(std::make_unique<Initiator>(context.get()));
  Buffer room(target.pd.get(), kInitiators * kMessages * 4096);
  for (uint32_t i = 0; i < kInitiators * kMessages; ++i) {
    ibv_sge sge = room.Sge(size_t{i} * 4096, 4096);
    ibv_recv_wr wr{.wr_id = i, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    Publish(target.srq.get());
    ASSERT_EQ(ibv_post_srq_recv(target.srq.get(), &wr, &bad), 0);
  }
  for (const auto& each : initiators) {
    each->buffer.Put(0, std::string(kMessage, static_cast<char>('a' + (each->qp->qp_num & 15))));
  }
  for (uint32_t i = 0; i < kMessages; ++i) {
    for (const auto& each : initiators) each->Post(target, each->buffer.Sge(0, kMessage), Send);
  }
  std::map<uint32_t, uint32_t> counts;
  for (uint32_t i = 0; i < kInitiators * kMessages; ++i) {
    const ibv_wc wc = target.Receive();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(room.Text(size_t{4096} * wc.wr_id, kMessage),
              std::string(kMessage, static_cast<char>('a' + (wc.src_qp & 15))));
    ++counts[wc.src_qp];
  }
  for (const auto& each : initiators) EXPECT_EQ(counts[each->qp->qp_num], kMessages);
}

TEST_F(DynamicConnections, WrongAccessKeyIsARemoteAccessError) {
  initiator.buffer.Put(0, "not this");
  initiator.Post(target, initiator.buffer.Sge(0, 8), WriteTo(target, 0), kDcKey + 1);
  initiator.Post(target, initiator.buffer.Sge(0, 8), WriteTo(target, 0));
  EXPECT_EQ(initiator.Done().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(initiator.Done().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(target.buffer.Text(0, 8), std::string(8, '\0'));
  Initiator other(context.get());
  ExpectWrites(other, target);
  initiator.Connect();
  ExpectWrites(initiator, target);
}

TEST_F(DynamicConnections, FailedRequestEndsTheConnectionOnly) {
  Initiator other(context.get());
  ExpectWrites(other, target);
  initiator.Post(target, initiator.buffer.Sge(0, 8), [&](ibv_qp_ex* qp) {
    ibv_wr_rdma_write(qp, target.buffer.rkey() + 1, target.buffer.Address(0));
  });
  EXPECT_EQ(initiator.Done().status, IBV_WC_REM_ACCESS_ERR);
  ExpectWrites(other, target);
  initiator.Connect();
  ExpectWrites(initiator, target);
}

TEST_F(DynamicConnections, TargetsGrantOnlyTheirRights) {
  Target read_only(context.get(), IBV_ACCESS_REMOTE_READ);
  initiator.Post(read_only, initiator.buffer.Sge(0, 8), ReadFrom(read_only, 0));
  EXPECT_EQ(initiator.Done().status, IBV_WC_SUCCESS);
  initiator.Post(read_only, initiator.buffer.Sge(0, 8), WriteTo(read_only, 0));
  EXPECT_EQ(initiator.Done().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(DynamicConnections, TooLongMessageFailsBothSidesAndLeavesTheTarget) {
  target.PostReceive(0, 4);
  initiator.Post(target, initiator.buffer.Sge(0, 8), Send);
  EXPECT_EQ(initiator.Done().status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(target.Receive().status, IBV_WC_LOC_LEN_ERR);
  initiator.Connect();
  ExpectWrites(initiator, target);
}

TEST_F(DynamicConnections, InitiatorWaitsForAReceive) {
  initiator.Post(target, initiator.buffer.Sge(0, 8), Send);
  initiator.Connect(7, 1);
  initiator.Post(target, initiator.buffer.Sge(0, 8), Send);
  EXPECT_EQ(initiator.Done().status, IBV_WC_RNR_RETRY_EXC_ERR);
  initiator.Connect();
  initiator.Post(target, initiator.buffer.Sge(0, 8), Send);
  target.PostReceive(0, 64);
  EXPECT_EQ(initiator.Done().status, IBV_WC_SUCCESS);
  EXPECT_EQ(target.Receive().byte_len, 8u);
}

TEST_F(DynamicConnections, MissingTargetIsATransportRetryError) {
  initiator.Connect(1);
  initiator.PostTo(initiator.qp->qp_num + 1000, initiator.buffer.Sge(0, 8), Send);
  EXPECT_EQ(initiator.Done().status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(DynamicConnections, TargetNeedsASharedReceiveQueueAndExactAttributes) {
  EXPECT_EQ(target.Create(nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  target.qp = target.Create(target.srq.get());
  EXPECT_EQ(target.ToRtr(), EINVAL);  // not in INIT
  EXPECT_EQ(target.ToInit(kAllAccess), 0);
  EXPECT_EQ(target.ToRtr(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU), EINVAL);
  EXPECT_EQ(target.ToRtr(), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(target.qp.get(), &attr, IBV_QP_STATE), EINVAL);
  ExpectWrites(initiator, target);
}

}  // namespace
}  // namespace verbs
