#include <gtest/gtest.h>

#include "verbs/peer.hpp"

namespace verbs {
namespace {

class SmallQueues : public TwoPeers {
 protected:
  SmallQueues()
      : TwoPeers(0, {.send_depth = 2, .receive_depth = 2, .pieces = 1, .inline_bytes = 0, .cqes = 2}) {
    Connect();
  }
};

TEST_F(SmallQueues, WrapOver100000Writes) {
  for (uint64_t i = 1; i <= 100'000; ++i) {
    local.As<uint64_t>() = i;
    const ibv_wc wc = Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote).Id(i).Run(a);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << i;
    ASSERT_EQ(wc.wr_id, i);
    ASSERT_EQ(remote.As<uint64_t>(), i);
  }
}

TEST_F(SmallQueues, WrapOver70000Sends) {
  for (uint64_t i = 1; i <= 70'000; ++i) {
    b.PostReceive({remote.Sge(0, 8)}, i);
    local.As<uint64_t>() = i;
    ASSERT_EQ(Work(IBV_WR_SEND, {local.Sge(0, 8)}).Run(a).status, IBV_WC_SUCCESS) << i;
    ASSERT_EQ(Wait(b.receive_cq.get()).wr_id, i);
    ASSERT_EQ(remote.As<uint64_t>(), i);
  }
}

TEST(InlineWrites, OfEverySizeEndAtAnyPlaceOfTheRing) {
  constexpr uint32_t kMost = 400;
  const Context context = Open();
  const PeerOptions options{.send_depth = 8, .inline_bytes = kMost};
  Peer a(context.get(), options), b(context.get(), options);
  Buffer remote(b.pd.get(), kMost + 1);
  a.Connect(b);
  b.Connect(a);
  std::string text(kMost, ' ');
  for (uint32_t bytes = 0; bytes <= kMost; ++bytes) {
    for (char& letter : text) letter = static_cast<char>('a' + (&letter - text.data() + bytes) % 26);
    Work work(IBV_WR_RDMA_WRITE, {{reinterpret_cast<uint64_t>(text.data()), bytes, 0}});
    ASSERT_EQ(work.To(remote).Flags(IBV_SEND_INLINE | IBV_SEND_SIGNALED).Run(a).status, IBV_WC_SUCCESS)
        << bytes;
    ASSERT_EQ(remote.Text(0, bytes), text.substr(0, bytes));
    ASSERT_EQ(remote[kMost], 0);
  }
}

TEST(SharedReceiveQueue, ServesTwoQueuePairs) {
  const Context context = Open();
  Peer a(context.get()), c(context.get());
  Peer b(context.get(), {.receive_depth = 4, .shared = true});
  ibv_qp_init_attr init{};
  init.send_cq = b.send_cq.get();
  init.recv_cq = b.receive_cq.get();
  init.srq = b.srq.get();
  init.qp_type = IBV_QPT_RC;
  init.cap = {.max_send_wr = 4, .max_recv_wr = 0, .max_send_sge = 1, .max_recv_sge = 0, .max_inline_data = 0};
  Peer d(context.get());
  d.qp.reset(ibv_create_qp(b.pd.get(), &init));
  a.Connect(b);
  b.Connect(a);
  c.Connect(d);
  d.Connect(c);
  Buffer from_a(a.pd.get(), 8), from_c(c.pd.get(), 8), to(b.pd.get(), 64);
  from_a.Put(0, "of a");
  from_c.Put(0, "of c");
  for (uint64_t round = 0; round < 50; ++round) {
    b.PostReceive({to.Sge(0, 8)}, 2 * round);
    b.PostReceive({to.Sge(8, 8)}, 2 * round + 1);
    ASSERT_EQ(Work(IBV_WR_SEND, {from_a.Sge(0, 4)}).Run(a).status, IBV_WC_SUCCESS);
    ASSERT_EQ(Work(IBV_WR_SEND, {from_c.Sge(0, 4)}).Run(c).status, IBV_WC_SUCCESS);
    const ibv_wc first = Wait(b.receive_cq.get()), second = Wait(b.receive_cq.get());
    ASSERT_EQ(first.wr_id, 2 * round);
    ASSERT_EQ(first.qp_num, b.qp->qp_num);
    ASSERT_EQ(second.wr_id, 2 * round + 1);
    ASSERT_EQ(second.qp_num, d.qp->qp_num);
    ASSERT_EQ(to.Text(0, 4) + to.Text(8, 4), "of aof c");
  }
}

}  // namespace
}  // namespace verbs
