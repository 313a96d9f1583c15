#include <gtest/gtest.h>

#include "verbs/peer.hpp"

/// MODIFY_QP accepts exactly the attributes that the kernel's mlx5 driver accepts.
namespace kernel_abi {
namespace {

class ModifyQp : public testing::Test {
 protected:
  int Modify(ibv_qp_state state, int mask) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.port_num = 1;
    return ibv_modify_qp(peer.qp.get(), &attr, IBV_QP_STATE | mask);
  }
  unsigned Access() {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(peer.qp.get(), &attr, IBV_QP_ACCESS_FLAGS, &init), 0);
    return attr.qp_access_flags;
  }

  static constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  static constexpr int kAll = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

  verbs::Context context = verbs::Open();
  verbs::Peer peer{context.get()};
};

TEST_F(ModifyQp, RefusesSuperfluousAttributes) {
  EXPECT_EQ(Modify(IBV_QPS_INIT, kInit | IBV_QP_SQ_PSN), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_RESET, IBV_QP_ACCESS_FLAGS), EINVAL);
  EXPECT_EQ(peer.State(), IBV_QPS_RESET);
  peer.Connect(peer);
  EXPECT_EQ(Modify(IBV_QPS_RTS, IBV_QP_PORT), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_RTS, IBV_QP_ALT_PATH), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_ERR, IBV_QP_ACCESS_FLAGS), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_SQD, 0), EINVAL);
  EXPECT_EQ(peer.State(), IBV_QPS_RTS);
}

TEST_F(ModifyQp, LeavesResetOnlyToInit) {
  EXPECT_EQ(Modify(IBV_QPS_ERR, 0), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_RTR, 0), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_RESET, 0), 0);
  EXPECT_EQ(Modify(IBV_QPS_INIT, kInit), 0);
  EXPECT_EQ(Modify(IBV_QPS_INIT, IBV_QP_PKEY_INDEX), 0);
  EXPECT_EQ(Modify(IBV_QPS_ERR, 0), 0);
}

TEST_F(ModifyQp, AllowsReadsOnlyWithResponderResources) {
  const verbs::Connection connection{.access = kAll};
  peer.ToInit(connection);
  EXPECT_EQ(Access(), unsigned{IBV_ACCESS_REMOTE_WRITE});
  peer.ToRtr(peer, connection);
  EXPECT_EQ(Access(), unsigned{kAll});
}

/// Queue pairs of the other services, which accept other attributes.
class ModifyOther : public testing::Test {
 protected:
  explicit ModifyOther(ibv_qp_type type) {
    ibv_qp_init_attr init{};
    init.send_cq = peer.send_cq.get();
    init.recv_cq = peer.receive_cq.get();
    init.qp_type = type;
    init.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    qp.reset(ibv_create_qp(peer.pd.get(), &init));
  }
  int Modify(ibv_qp_state state, int mask) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.port_num = 1;
    attr.qkey = 0x1234;
    attr.sq_psn = 0x4321;
    return ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | mask);
  }
  ibv_qp_attr Attributes() {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_QKEY | IBV_QP_SQ_PSN, &init), 0);
    return attr;
  }

  static constexpr int kPlace = IBV_QP_PKEY_INDEX | IBV_QP_PORT;

  verbs::Context context = verbs::Open();
  verbs::Peer peer{context.get()};
  verbs::Qp qp;
};

struct ModifyDatagram : ModifyOther {
  ModifyDatagram() : ModifyOther(IBV_QPT_UD) {}
};

TEST_F(ModifyDatagram, NeedsAQkeyAndNoPath) {
  EXPECT_EQ(Modify(IBV_QPS_INIT, kPlace), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_INIT, kPlace | IBV_QP_ACCESS_FLAGS), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_INIT, kPlace | IBV_QP_QKEY), 0);
  EXPECT_EQ(Modify(IBV_QPS_RTR, IBV_QP_AV), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_RTR, 0), 0);
  EXPECT_EQ(Modify(IBV_QPS_RTS, 0), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_RTS, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
  EXPECT_EQ(Modify(IBV_QPS_RTS, IBV_QP_QKEY), 0);
  EXPECT_EQ(Attributes().qkey, 0x1234u);
  EXPECT_EQ(Attributes().sq_psn, 0x4321u);
}

struct ModifyUnreliable : ModifyOther {
  ModifyUnreliable() : ModifyOther(IBV_QPT_UC) {}
};

TEST_F(ModifyUnreliable, RefusesQkeyAndTimers) {
  EXPECT_EQ(Modify(IBV_QPS_INIT, kPlace | IBV_QP_QKEY), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_INIT, kPlace | IBV_QP_ACCESS_FLAGS), 0);
  constexpr int kConnection = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  EXPECT_EQ(Modify(IBV_QPS_RTR, kConnection | IBV_QP_MIN_RNR_TIMER), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_RTR, IBV_QP_DEST_QPN), EINVAL);
  EXPECT_EQ(Attributes().qp_state, IBV_QPS_INIT);
}

}  // namespace
}  // namespace kernel_abi
