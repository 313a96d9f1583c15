#include <gtest/gtest.h>

#include <cerrno>

#include "verbs/peer.hpp"

namespace verbs {
namespace {

/// Devices without atomics and with messages of at most 64 KiB. The port of the second one is down.
class LimitedDevice : public TwoPeers {};

TEST_F(LimitedDevice, OffersAndAcceptsNoAtomics) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_a.get(), &device), 0);
  EXPECT_EQ(device.atomic_cap, IBV_ATOMIC_NONE);
  Connect();
  EXPECT_EQ(Work(IBV_WR_ATOMIC_FETCH_AND_ADD, {local.Sge(0, 8)}).FetchAdd(remote, 0, 1).TryPost(a),
            EOPNOTSUPP);
}

TEST_F(LimitedDevice, ReportsItsLongestMessage) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context_a.get(), 1, &port), 0);
  EXPECT_EQ(port.max_msg_sz, 65536u);
}

TEST_F(LimitedDevice, RefusesALongerMessage) {
  Connect();
  const auto write = [&](uint32_t second) {
    return Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 65535), local.Sge(0, second)}).To(remote).Run(a).status;
  };
  EXPECT_EQ(write(1), IBV_WC_SUCCESS);
  EXPECT_EQ(write(2), IBV_WC_LOC_LEN_ERR);
}

TEST_F(LimitedDevice, SaysThatItTakesDmaBufs) {
  EXPECT_EQ(ibv_reg_dmabuf_mr(a.pd.get(), 0, 0, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EBADF) << "what a program without CUDA exports can be mapped";
}

TEST(DownPort, LetsNothingThrough) {
  const Context up = Open(0), down = Open(1);
  Peer a(up.get()), b(down.get());
  Buffer local(a.pd.get(), 8), remote(b.pd.get(), 8);
  const Connection impatient{.timeout = 8, .retries = 1};
  a.Connect(b, impatient);
  b.Connect(a, impatient);
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote).Run(a).status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {remote.Sge(0, 8)}).To(local).Run(b).status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace verbs
