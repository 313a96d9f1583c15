#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

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

TEST_F(SmallQueues, WrapDuring100000Writes) {
  for (uint64_t i = 1; i <= 100'000; ++i) {
    local.As<uint64_t>() = i;
    const ibv_wc wc = Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote).Id(i).Run(a);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << i;
    ASSERT_EQ(wc.wr_id, i);
    ASSERT_EQ(remote.As<uint64_t>(), i);
  }
}

TEST_F(SmallQueues, WrapDuring70000Sends) {
  for (uint64_t i = 1; i <= 70'000; ++i) {
    b.PostReceive({remote.Sge(0, 8)}, i);
    local.As<uint64_t>() = i;
    ASSERT_EQ(Work(IBV_WR_SEND, {local.Sge(0, 8)}).Run(a).status, IBV_WC_SUCCESS) << i;
    ASSERT_EQ(Wait(b.receive_cq.get()).wr_id, i);
    ASSERT_EQ(remote.As<uint64_t>(), i);
  }
}

TEST(InlineWrite, WrapsInEverySizeAtAnyPlaceOfTheRing) {
  constexpr uint32_t kMaxBytes = 400;
  const Context context = Open();
  const PeerOptions options{.send_depth = 8, .inline_bytes = kMaxBytes};
  Peer a(context.get(), options), b(context.get(), options);
  Buffer remote(b.pd.get(), kMaxBytes + 1);
  a.Connect(b);
  b.Connect(a);
  std::string text(kMaxBytes, ' ');
  for (uint32_t bytes = 0; bytes <= kMaxBytes; ++bytes) {
    for (char& letter : text) letter = static_cast<char>('a' + (&letter - text.data() + bytes) % 26);
    Work work(IBV_WR_RDMA_WRITE, {{reinterpret_cast<uint64_t>(text.data()), bytes, 0}});
    ASSERT_EQ(work.To(remote).Flags(IBV_SEND_INLINE | IBV_SEND_SIGNALED).Run(a).status, IBV_WC_SUCCESS)
        << bytes;
    ASSERT_EQ(remote.Text(0, bytes), text.substr(0, bytes));
    ASSERT_EQ(remote[kMaxBytes], 0);
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

class ResizedCq : public TwoPeers {
 protected:
  ResizedCq() : TwoPeers(0, {.cqes = 3}) { Connect(); }

  /// Sends messages, and waits until all of them but the last have surely completed at the sender.
  void Send(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      b.PostReceive({remote.Sge(0, 8)});
      Work(IBV_WR_SEND, {local.Sge(0, 8)}).Id(next_sent++).Post(a);
      ASSERT_EQ(Wait(b.receive_cq.get()).status, IBV_WC_SUCCESS);
    }
  }

  ibv_cq* cq = a.send_cq.get();
  uint64_t next_sent = 0;
};

TEST_F(ResizedCq, KeepsItsUnreadCompletions) {
  uint64_t next_read = 0;
  for (const int size : {7, 20, 5, 300, 4, 6, 1000}) {
    for (int round = 0; round < 10; ++round) {
      const uint64_t unread = static_cast<uint64_t>(round) % 3;
      Send(unread);
      ASSERT_EQ(ibv_resize_cq(cq, size + round % 2 * 8), 0) << size;
      ASSERT_GE(cq->cqe, size);
      Send(2);
      for (const uint64_t end = next_read + unread + 2; next_read < end; ++next_read) {
        const ibv_wc wc = Wait(cq);
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        ASSERT_EQ(wc.wr_id, next_read) << "of size " << size << ", round " << round;
      }
    }
  }
  EXPECT_EQ(next_read, next_sent);
}

TEST_F(ResizedCq, RefusesASizeBelowItsUnreadCompletions) {
  ASSERT_EQ(ibv_resize_cq(cq, 15), 0);
  Send(9);
  EXPECT_EQ(ibv_resize_cq(cq, 3), EINVAL);
  EXPECT_EQ(ibv_resize_cq(cq, 0), EINVAL);
  EXPECT_EQ(cq->cqe, 15);
  for (uint64_t i = 0; i < 9; ++i) EXPECT_EQ(Wait(cq).wr_id, i);
}

TEST(ResizedCqOfDatagrams, CountsTheCompletionsOfWhatWasJustPosted) {
  const Context context = Open();
  Peer a(context.get(), {.type = IBV_QPT_UD, .cqes = 15});
  a.Connect(a);
  Buffer memory(a.pd.get(), 256);
  const AddressHandle address = a.AddressOf(a, 0);
  for (int round = 0; round < 100; ++round) {
    for (uint64_t i = 0; i < 9; ++i) {
      Work(IBV_WR_SEND, {memory.Sge(0, 8)}).To(address, a.qp->qp_num).Id(i).Post(a);
    }
    ASSERT_EQ(ibv_resize_cq(a.send_cq.get(), 3), EINVAL) << round;
    for (uint64_t i = 0; i < 9; ++i) ASSERT_EQ(Wait(a.send_cq.get()).wr_id, i);
  }
}

TEST(ResizedCqWithAChannel, StillAnnouncesWhatItWasArmedFor) {
  const Context context = Open();
  const Channel channel(ibv_create_comp_channel(context.get()));
  Peer a(context.get(), {.cqes = 1, .channel = channel.get()}), b(context.get());
  a.Connect(b);
  b.Connect(a);
  Buffer local(a.pd.get(), 8), remote(b.pd.get(), 8);
  for (int size = 2; size < 200; size *= 2) {
    ASSERT_EQ(ibv_req_notify_cq(a.send_cq.get(), 0), 0);
    ASSERT_EQ(ibv_resize_cq(a.send_cq.get(), size), 0);
    Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote).Post(a);
    ibv_cq* announced = nullptr;
    void* cq_context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel.get(), &announced, &cq_context), 0);
    EXPECT_EQ(announced, a.send_cq.get());
    ibv_ack_cq_events(announced, 1);
    EXPECT_EQ(Wait(announced).status, IBV_WC_SUCCESS);
  }
}

TEST(Threads, TransferWhileObjectsComeAndGo) {
  constexpr int kThreads = 3;
  constexpr uint64_t kRounds = 3000;
  const Context context = Open();
  std::atomic<int> working = kThreads;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      Peer a(context.get(), {.send_depth = 4}), b(context.get(), {.send_depth = 4});
      Buffer local(a.pd.get(), 8), remote(b.pd.get(), 8);
      a.Connect(b);
      b.Connect(a);
      for (uint64_t round = 1; round <= kRounds; ++round) {
        local.As<uint64_t>() = round;
        ASSERT_EQ(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote).Run(a).status, IBV_WC_SUCCESS);
        ASSERT_EQ(remote.As<uint64_t>(), round);
      }
      --working;
    });
  }
  int created = 0;
  while (working != 0) {
    Peer passing(context.get());
    passing.Connect(passing);
    const Buffer memory(passing.pd.get(), 64);
    ++created;
    if (testing::Test::HasFailure()) break;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(created, 0);
}

TEST(MemoryRegion, IsReachedAtItsIova) {
  constexpr uint64_t kIova = 0x7000'0000'0000;
  const Context context = Open();
  Peer a(context.get()), b(context.get());
  a.Connect(b);
  b.Connect(a);
  Buffer local(a.pd.get(), 64);
  local.Put(0, "elsewhere");
  alignas(4096) std::array<char, 4096> memory{};
  const Mr mr(ibv_reg_mr_iova(b.pd.get(), memory.data(), memory.size(), kIova, kAllAccess));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 9)}).To(kIova + 100, mr->rkey).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(std::string(&memory[100], 9), "elsewhere");
  const auto address = reinterpret_cast<uint64_t>(memory.data());
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 9)}).To(address, mr->rkey).Run(a).status,
            IBV_WC_REM_ACCESS_ERR);
}

TEST(MemoryRegion, OfNoBytesNeedsAPage) {
  const Context context = Open();
  const Pd pd(ibv_alloc_pd(context.get()));
  alignas(4096) std::array<char, 4096> memory{};
  EXPECT_NE(Mr(ibv_reg_mr(pd.get(), &memory[8], 0, kAllAccess)), nullptr);
  EXPECT_EQ(Mr(ibv_reg_mr(pd.get(), &memory[0], 0, kAllAccess)), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(MemoryRegion, IsQueriedByItsHandle) {
  const Context context = Open();
  const Pd pd(ibv_alloc_pd(context.get()));
  std::array<char, 100> memory{};
  const Mr mr(ibv_reg_mr(pd.get(), memory.data(), memory.size(), kAllAccess));
  ASSERT_NE(mr, nullptr);
  ibv_mr* const imported = ibv_import_mr(pd.get(), mr->handle);
  ASSERT_NE(imported, nullptr) << strerror(errno);
  EXPECT_EQ(imported->lkey, mr->lkey);
  EXPECT_EQ(imported->rkey, mr->rkey);
  EXPECT_EQ(imported->length, memory.size());
  ibv_unimport_mr(imported);
}

TEST(QueryQp, RoundsTheSizesOfTheReceiveQueueUp) {
  const Context context = Open();
  const Peer peer(context.get(), {.receive_depth = 17, .pieces = 3});
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(peer.qp.get(), &attr, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(init.cap.max_recv_wr, 32u);
  EXPECT_EQ(init.cap.max_recv_sge, 4u);
}

TEST(QueryQp, HasNoReceiveQueueWithASharedOne) {
  const Context context = Open();
  const Peer peer(context.get(), {.shared = true});
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(peer.qp.get(), &attr, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(init.cap.max_recv_wr, 0u);
  EXPECT_EQ(init.cap.max_recv_sge, 0u);
}

TEST(QueryQp, ReturnsWhatWasSet) {
  const Context context = Open();
  Peer a(context.get(), {.send_depth = 32, .receive_depth = 16}), b(context.get());
  a.Connect(
      b,
      {.mtu = IBV_MTU_2048, .send_psn = 77, .receive_psn = 88, .timeout = 9, .retries = 3, .rnr_retries = 5});
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  const int all = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                  IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_ACCESS_FLAGS |
                  IBV_QP_CAP;
  ASSERT_EQ(ibv_query_qp(a.qp.get(), &attr, all, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(attr.dest_qp_num, b.qp->qp_num);
  EXPECT_EQ(attr.sq_psn, 77u);
  EXPECT_EQ(attr.rq_psn, 88u);
  EXPECT_EQ(attr.timeout, 9);
  EXPECT_EQ(attr.retry_cnt, 3);
  EXPECT_EQ(attr.rnr_retry, 5);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(attr.ah_attr.grh.hop_limit, 64);
  EXPECT_EQ(attr.qp_access_flags & ~static_cast<unsigned>(IBV_ACCESS_REMOTE_ATOMIC),
            static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ))
      << "local rights are not the queue pair's";
  EXPECT_GE(init.cap.max_send_wr, 32u);
  EXPECT_GE(init.cap.max_recv_wr, 16u);
}

}  // namespace
}  // namespace verbs
