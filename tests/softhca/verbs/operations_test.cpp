#include <gtest/gtest.h>

#include <numeric>

#include "verbs/peer.hpp"

namespace verbs {
namespace {

/// Every operation, to a queue pair of the same device and of another one.
class Operations : public TwoPeers, public testing::WithParamInterface<int> {
 protected:
  Operations() : TwoPeers(GetParam()) {
    Connect();
    for (size_t i = 0; i < 65536; ++i) local[i] = static_cast<uint8_t>(i * 7 + i / 256);
  }
};

INSTANTIATE_TEST_SUITE_P(To, Operations, testing::Values(0, 1), [](const auto& device) {
  return device.param == 0 ? "OneDevice" : "AnotherDevice";
});

TEST_P(Operations, WriteReachesThePeer) {
  for (const uint32_t bytes : {1u, 8u, 1023u, 1024u, 1025u, 65000u}) {
    const ibv_wc wc = Work(IBV_WR_RDMA_WRITE, {local.Sge(3, bytes)}).To(remote, 5).Id(bytes).Run(a);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(wc.wr_id, bytes);
    EXPECT_EQ(wc.qp_num, a.qp->qp_num);
    EXPECT_EQ(remote.Text(5, bytes), local.Text(3, bytes));
    EXPECT_EQ(remote[5 + bytes], 0);
  }
}

TEST_P(Operations, WriteWithImmediateCompletesAReceive) {
  Buffer untouched(b.pd.get(), 16);
  b.PostReceive({untouched.Sge(0, 16)}, 77);
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE_WITH_IMM, {local.Sge(0, 100)}).To(remote).Imm(0xcafe).Run(a).status,
            IBV_WC_SUCCESS);
  const ibv_wc wc = Wait(b.receive_cq.get());
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.wc_flags, IBV_WC_WITH_IMM);
  EXPECT_EQ(be32toh(wc.imm_data), 0xcafeu);
  EXPECT_EQ(wc.byte_len, 100u);
  EXPECT_EQ(wc.wr_id, 77u);
  EXPECT_EQ(remote.Text(0, 100), local.Text(0, 100));
  EXPECT_EQ(untouched[0], 0);
}

TEST_P(Operations, ReadFetchesFromThePeer) {
  remote.Put(100, "to be read");
  const ibv_wc wc = Work(IBV_WR_RDMA_READ, {local.Sge(0, 10)}).To(remote, 100).Run(a);
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(wc.byte_len, 10u);
  EXPECT_EQ(local.Text(0, 10), "to be read");
}

TEST_P(Operations, SendFillsAReceive) {
  b.PostReceive({remote.Sge(50, 1000)}, 12);
  const ibv_wc sent = Work(IBV_WR_SEND, {local.Sge(0, 300)}).Run(a);
  ASSERT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  const ibv_wc wc = Wait(b.receive_cq.get());
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.byte_len, 300u);
  EXPECT_EQ(wc.wr_id, 12u);
  EXPECT_EQ(wc.qp_num, b.qp->qp_num);
  EXPECT_EQ(wc.wc_flags, 0u);
  EXPECT_EQ(remote.Text(50, 300), local.Text(0, 300));
}

TEST_P(Operations, SendCarriesItsImmediate) {
  b.PostReceive({remote.Sge(0, 8)});
  EXPECT_EQ(Work(IBV_WR_SEND_WITH_IMM, {local.Sge(0, 8)}).Imm(42).Run(a).status, IBV_WC_SUCCESS);
  const ibv_wc wc = Wait(b.receive_cq.get());
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.wc_flags, IBV_WC_WITH_IMM);
  EXPECT_EQ(be32toh(wc.imm_data), 42u);
}

TEST_P(Operations, InlineSendCopiesItsBufferAtOnce) {
  b.PostReceive({remote.Sge(0, 64)});
  std::string text = "sent inline";
  Work work(IBV_WR_SEND, {{reinterpret_cast<uint64_t>(text.data()), static_cast<uint32_t>(text.size()), 0}});
  work.Flags(IBV_SEND_SIGNALED | IBV_SEND_INLINE).Post(a);
  text.assign(text.size(), '?');
  EXPECT_EQ(Wait(a.send_cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Wait(b.receive_cq.get()).byte_len, 11u);
  EXPECT_EQ(remote.Text(0, 11), "sent inline");
}

TEST_P(Operations, GathersAndScattersSeveralPieces) {
  local.Put(0, "abcdefghij");
  b.PostReceive({remote.Sge(0, 3), remote.Sge(100, 2), remote.Sge(200, 4), remote.Sge(300, 10)});
  EXPECT_EQ(
      Work(IBV_WR_SEND, {local.Sge(4, 3), local.Sge(0, 2), local.Sge(9, 1), local.Sge(2, 4)}).Run(a).status,
      IBV_WC_SUCCESS);
  EXPECT_EQ(Wait(b.receive_cq.get()).byte_len, 10u);
  EXPECT_EQ(remote.Text(0, 3) + remote.Text(100, 2) + remote.Text(200, 4) + remote.Text(300, 1),
            "efgabjcdef");

  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 1), local.Sge(5, 2)}).To(remote, 400).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(remote.Text(400, 3), "afg");
  EXPECT_EQ(Work(IBV_WR_RDMA_READ, {local.Sge(20, 2), local.Sge(30, 1)}).To(remote, 400).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(local.Text(20, 2) + local.Text(30, 1), "afg");
}

TEST_P(Operations, FetchAddReturnsTheOldValue) {
  remote.As<uint64_t>(8) = 40;
  const ibv_wc wc = Work(IBV_WR_ATOMIC_FETCH_AND_ADD, {local.Sge(0, 8)}).FetchAdd(remote, 8, 2).Run(a);
  ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(wc.byte_len, 8u);
  EXPECT_EQ(local.As<uint64_t>(), 40u);
  EXPECT_EQ(remote.As<uint64_t>(8), 42u);
}

TEST_P(Operations, CompareSwapSwapsOnlyOnAMatch) {
  remote.As<uint64_t>() = 5;
  EXPECT_EQ(Work(IBV_WR_ATOMIC_CMP_AND_SWP, {local.Sge(0, 8)}).CompareSwap(remote, 0, 4, 9).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(local.As<uint64_t>(), 5u);
  EXPECT_EQ(remote.As<uint64_t>(), 5u);
  const ibv_wc wc = Work(IBV_WR_ATOMIC_CMP_AND_SWP, {local.Sge(0, 8)}).CompareSwap(remote, 0, 5, 9).Run(a);
  EXPECT_EQ(wc.opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(local.As<uint64_t>(), 5u);
  EXPECT_EQ(remote.As<uint64_t>(), 9u);
}

TEST_P(Operations, EmptyMessagesComplete) {
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE).To(0, 0).Run(a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Work(IBV_WR_RDMA_READ).To(0, 0).Run(a).status, IBV_WC_SUCCESS);
  b.PostReceive({});
  b.PostReceive({remote.Sge(0, 8)});
  EXPECT_EQ(Work(IBV_WR_SEND).Run(a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE_WITH_IMM).To(0, 0).Imm(3).Run(a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Wait(b.receive_cq.get()).byte_len, 0u);
  EXPECT_EQ(be32toh(Wait(b.receive_cq.get()).imm_data), 3u);
}

TEST_P(Operations, BothEndsSendAtOnce) {
  for (uint64_t id = 0; id < 20; ++id) {
    a.PostReceive({local.Sge(1000, 8)}, id);
    b.PostReceive({remote.Sge(1000, 8)}, id);
  }
  for (uint64_t id = 0; id < 20; ++id) {
    Work(IBV_WR_SEND, {local.Sge(0, 8)}).Id(id).Post(a);
    Work(IBV_WR_SEND, {remote.Sge(0, 8)}).Id(id).Post(b);
  }
  for (uint64_t id = 0; id < 20; ++id) {
    for (ibv_cq* cq : {a.send_cq.get(), a.receive_cq.get(), b.send_cq.get(), b.receive_cq.get()}) {
      const ibv_wc wc = Wait(cq);
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      ASSERT_EQ(wc.wr_id, id);
    }
  }
}

TEST_P(Operations, UnsignalledRequestsCompleteWithTheNextSignalledOne) {
  for (uint64_t i = 1; i <= 64; ++i) {
    local.As<uint64_t>(i * 8) = i;
    Work work(IBV_WR_RDMA_WRITE, {local.Sge(i * 8, 8)});
    work.To(remote, i * 8).Id(i).Flags(i % 16 == 0 ? IBV_SEND_SIGNALED : 0).Post(a);
  }
  for (uint64_t i = 16; i <= 64; i += 16) EXPECT_EQ(Wait(a.send_cq.get()).wr_id, i);
  for (uint64_t i = 1; i <= 64; ++i) EXPECT_EQ(remote.As<uint64_t>(i * 8), i);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(a.send_cq.get(), 1, &wc), 0);
}

TEST_P(Operations, OneCallPostsAListOfRequests) {
  std::vector<ibv_sge> sges(10);
  std::vector<ibv_send_wr> list(10);
  for (size_t i = 0; i < list.size(); ++i) {
    sges[i] = local.Sge(i * 16, 16);
    list[i].wr_id = i;
    list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
    list[i].sg_list = &sges[i];
    list[i].num_sge = 1;
    list[i].opcode = IBV_WR_RDMA_WRITE;
    list[i].send_flags = IBV_SEND_SIGNALED;
    list[i].wr.rdma = {remote.Address(i * 16), remote.rkey()};
  }
  ibv_send_wr* bad = nullptr;
  Publish(a.qp.get());
  ASSERT_EQ(ibv_post_send(a.qp.get(), list.data(), &bad), 0);
  for (size_t i = 0; i < list.size(); ++i) EXPECT_EQ(Wait(a.send_cq.get()).wr_id, i);
  EXPECT_EQ(remote.Text(0, 160), local.Text(0, 160));
}

}  // namespace
}  // namespace verbs
