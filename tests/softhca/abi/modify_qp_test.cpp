#include <gtest/gtest.h>

#include "verbs/peer.hpp"

/// MODIFY_QP takes what a kernel with mlx5 devices takes, no more.
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

TEST_F(ModifyQp, RefusesAttributesThatTheTransitionDoesNotTake) {
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

TEST_F(ModifyQp, OfAResetQueuePairGoesToInitOnly) {
  EXPECT_EQ(Modify(IBV_QPS_ERR, 0), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_RTR, 0), EINVAL);
  EXPECT_EQ(Modify(IBV_QPS_RESET, 0), 0);
  EXPECT_EQ(Modify(IBV_QPS_INIT, kInit), 0);
  EXPECT_EQ(Modify(IBV_QPS_INIT, IBV_QP_PKEY_INDEX), 0);
  EXPECT_EQ(Modify(IBV_QPS_ERR, 0), 0);
}

TEST_F(ModifyQp, PeersReadOnlyWithResourcesForIt) {
  const verbs::Connection connection{.access = kAll};
  peer.ToInit(connection);
  EXPECT_EQ(Access(), unsigned{IBV_ACCESS_REMOTE_WRITE});
  peer.ToRtr(peer, connection);
  EXPECT_EQ(Access(), unsigned{kAll});
}

}  // namespace
}  // namespace kernel_abi
