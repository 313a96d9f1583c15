#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <functional>

#include "verbs/peer.hpp"

namespace verbs {
namespace {

class Errors : public TwoPeers {
 protected:
  /// Posts work that fails and work that is flushed after it, and expects exactly these completions.
  void ExpectFailure(Work work, ibv_wc_status status) {
    work.Id(1).Post(a);
    Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote).Id(2).Post(a);
    Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote).Id(3).Flags(0).Post(a);
    const ibv_wc failed = Wait(a.send_cq.get());
    EXPECT_EQ(failed.status, status) << ibv_wc_status_str(failed.status);
    EXPECT_EQ(failed.wr_id, 1u);
    EXPECT_EQ(failed.qp_num, a.qp->qp_num);
    for (const uint64_t id : {2, 3}) {
      const ibv_wc flushed = Wait(a.send_cq.get());
      EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
      EXPECT_EQ(flushed.wr_id, id);
    }
    EXPECT_EQ(a.State(), IBV_QPS_ERR);
  }
  void ExpectReceive(ibv_wc_status status, uint64_t id = 0) {
    const ibv_wc wc = Wait(b.receive_cq.get());
    EXPECT_EQ(wc.status, status) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.wr_id, id);
  }
  Work Write(uint32_t bytes = 8) { return Work(IBV_WR_RDMA_WRITE, {local.Sge(0, bytes)}).To(remote); }
  Work Add(const Buffer& target, size_t offset) {
    return Work(IBV_WR_ATOMIC_FETCH_AND_ADD, {local.Sge(0, 8)}).FetchAdd(target, offset, 1);
  }
};

TEST_F(Errors, WrongRkeyFailsBothEnds) {
  Connect();
  b.PostReceive({remote.Sge(0, 8)}, 9);
  ExpectFailure(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote.Address(), remote.rkey() + 1),
                IBV_WC_REM_ACCESS_ERR);
  ExpectReceive(IBV_WC_WR_FLUSH_ERR, 9);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
}

TEST_F(Errors, WrongLkeyFailsTheSender) {
  Connect();
  ibv_sge sge = local.Sge(0, 8);
  ++sge.lkey;
  ExpectFailure(Work(IBV_WR_RDMA_WRITE, {sge}).To(remote), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_RTS) << "nothing was sent";
}

TEST_F(Errors, OneByteBeyondTheRemoteMemoryFails) {
  Connect();
  ASSERT_EQ(Write(8).To(remote, 65528).Run(a).status, IBV_WC_SUCCESS);
  ExpectFailure(Write(9).To(remote, 65528), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Errors, OneByteBeforeTheRemoteMemoryFails) {
  Connect();
  ExpectFailure(Write(8).To(remote.Address() - 1, remote.rkey()), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Errors, OneByteBeyondTheLocalMemoryFails) {
  Connect();
  ExpectFailure(Work(IBV_WR_RDMA_WRITE, {local.Sge(65528, 9)}).To(remote), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Errors, AccessToDeregisteredMemoryFails) {
  Connect();
  uint32_t rkey = 0;
  {
    const Buffer gone(b.pd.get(), 4096);
    rkey = gone.rkey();
  }
  ExpectFailure(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote.Address(), rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Errors, RemoteMemoryOfAnotherProtectionDomainFails) {
  Connect();
  const Pd pd(ibv_alloc_pd(b.context));
  const Buffer foreign(pd.get(), 64);
  ExpectFailure(Write().To(foreign), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Errors, LocalMemoryOfAnotherProtectionDomainFails) {
  Connect();
  const Pd pd(ibv_alloc_pd(a.context));
  Buffer foreign(pd.get(), 64);
  ExpectFailure(Work(IBV_WR_RDMA_WRITE, {foreign.Sge(0, 8)}).To(remote), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Errors, ReadIntoReadOnlyMemoryFails) {
  Connect();
  Buffer constant(a.pd.get(), 64, 0);
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {constant.Sge(0, 8)}).To(remote).Run(a).status, IBV_WC_SUCCESS);
  ExpectFailure(Work(IBV_WR_RDMA_READ, {constant.Sge(0, 8)}).To(remote), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Errors, RemoteKeyOfAReadIsCheckedBeforeTheLocalOne) {
  Connect();
  ibv_sge sge = local.Sge(0, 8);
  ++sge.lkey;
  ExpectFailure(Work(IBV_WR_RDMA_READ, {sge}).To(remote.Address(), remote.rkey() + 1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Errors, AtomicWithAWrongLkeyIsExecuted) {
  Connect();
  remote.As<uint64_t>(8) = 5;  // the writes that follow, to the first 8 bytes, may be on their way by then
  ibv_sge sge = local.Sge(0, 8);
  ++sge.lkey;
  ExpectFailure(Work(IBV_WR_ATOMIC_CMP_AND_SWP, {sge}).CompareSwap(remote, 8, 5, 7), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(remote.As<uint64_t>(8), 7u);
  EXPECT_EQ(b.State(), IBV_QPS_RTS);
}

TEST_F(Errors, WriteWithImmediateAndAWrongRkeyFailsTheReceive) {
  Connect();
  b.PostReceive({remote.Sge(0, 8)}, 5);
  b.PostReceive({remote.Sge(0, 8)}, 6);
  ExpectFailure(
      Work(IBV_WR_RDMA_WRITE_WITH_IMM, {local.Sge(0, 8)}).To(remote.Address(), remote.rkey() + 1).Imm(1),
      IBV_WC_REM_ACCESS_ERR);
  ExpectReceive(IBV_WC_LOC_ACCESS_ERR, 5);
  ExpectReceive(IBV_WC_WR_FLUSH_ERR, 6);
}

TEST_F(Errors, WriteToMemoryWithoutRemoteWriteFails) {
  Connect();
  const Buffer target(b.pd.get(), 64, kAllAccess & ~IBV_ACCESS_REMOTE_WRITE);
  ExpectFailure(Write().To(target), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Errors, ReadOfMemoryWithoutRemoteReadFails) {
  Connect();
  const Buffer target(b.pd.get(), 64, kAllAccess & ~IBV_ACCESS_REMOTE_READ);
  ExpectFailure(Work(IBV_WR_RDMA_READ, {local.Sge(0, 8)}).To(target), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Errors, AtomicOnMemoryWithoutRemoteAtomicFails) {
  Connect();
  const Buffer target(b.pd.get(), 64, kAllAccess & ~IBV_ACCESS_REMOTE_ATOMIC);
  ExpectFailure(Add(target, 0), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Errors, WriteToAQueuePairWithoutRemoteWriteFails) {
  Connect({}, {.access = kAllAccess & ~IBV_ACCESS_REMOTE_WRITE});
  ExpectFailure(Write(), IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(Errors, ReadFromAQueuePairWithoutRemoteReadFails) {
  Connect({}, {.access = kAllAccess & ~IBV_ACCESS_REMOTE_READ});
  ExpectFailure(Work(IBV_WR_RDMA_READ, {local.Sge(0, 8)}).To(remote), IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(Errors, AtomicOnAQueuePairWithoutRemoteAtomicFails) {
  Connect({}, {.access = kAllAccess & ~IBV_ACCESS_REMOTE_ATOMIC});
  ExpectFailure(Add(remote, 0), IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(Errors, MisalignedAtomicFails) {
  Connect();
  ExpectFailure(Add(remote, 4), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
}

TEST_F(Errors, RetriesRunOutWhenThePeerIsNotConnected) {
  a.Connect(b, {.timeout = 8, .retries = 1});
  ExpectFailure(Write(), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_RESET);
}

TEST_F(Errors, RetriesRunOutWhenThePeerIsConnectedElsewhere) {
  a.Connect(b, {.timeout = 8, .retries = 1});
  b.Connect(b);
  ExpectFailure(Write(), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Errors, RetriesRunOutWhenSequenceNumbersDiffer) {
  Connect({.send_psn = 101, .timeout = 8, .retries = 0}, {.receive_psn = 100});
  ExpectFailure(Write(), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Errors, RnrRetriesRunOutWithoutAReceive) {
  Connect({.rnr_retries = 1}, {.min_rnr_timer = 1});
  ExpectFailure(Work(IBV_WR_SEND, {local.Sge(0, 8)}), IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_RTS);
}

TEST_F(Errors, SendWaitsForALateReceive) {
  Connect({.rnr_retries = 7}, {.min_rnr_timer = 1});
  Work(IBV_WR_SEND, {local.Sge(0, 8)}).Post(a);
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {remote.Sge(8, 8)}).To(local, 8).Run(b).status, IBV_WC_SUCCESS)
      << "the engine has executed the send";
  b.PostReceive({remote.Sge(0, 8)}, 5);
  EXPECT_EQ(Wait(a.send_cq.get()).status, IBV_WC_SUCCESS);
  ExpectReceive(IBV_WC_SUCCESS, 5);
}

TEST_F(Errors, MessageLongerThanTheReceiveFailsBothEnds) {
  Connect();
  b.PostReceive({remote.Sge(0, 8)}, 5);
  b.PostReceive({remote.Sge(0, 8)}, 6);
  ExpectFailure(Work(IBV_WR_SEND, {local.Sge(0, 9)}), IBV_WC_REM_INV_REQ_ERR);
  ExpectReceive(IBV_WC_LOC_LEN_ERR, 5);
  ExpectReceive(IBV_WC_WR_FLUSH_ERR, 6);
}

TEST_F(Errors, ReceiveWithAWrongKeyFailsBothEnds) {
  Connect();
  ibv_sge sge = remote.Sge(0, 8);
  ++sge.lkey;
  b.PostReceive({sge}, 5);
  ExpectFailure(Work(IBV_WR_SEND, {local.Sge(0, 8)}), IBV_WC_REM_OP_ERR);
  ExpectReceive(IBV_WC_LOC_PROT_ERR, 5);
}

TEST_F(Errors, ErrorStateFlushesLaterWork) {
  Connect();
  a.PostReceive({local.Sge(0, 8)}, 4);
  a.To(IBV_QPS_ERR);
  EXPECT_EQ(Wait(a.receive_cq.get()).status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(Write().Run(a).status, IBV_WC_WR_FLUSH_ERR);
  a.PostReceive({local.Sge(0, 8)}, 5);
  EXPECT_EQ(Wait(a.receive_cq.get()).wr_id, 5u);
}

TEST_F(Errors, ResetRestoresFailedQueuePairs) {
  Connect();
  ExpectFailure(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote.Address(), 0), IBV_WC_REM_ACCESS_ERR);
  for (int round = 0; round < 3; ++round) {
    a.To(IBV_QPS_RESET);
    b.To(IBV_QPS_RESET);
    Connect();
    b.PostReceive({remote.Sge(0, 8)}, 8);
    EXPECT_EQ(Write().Run(a).status, IBV_WC_SUCCESS);
    EXPECT_EQ(Work(IBV_WR_SEND, {local.Sge(0, 8)}).Run(a).status, IBV_WC_SUCCESS);
    ExpectReceive(IBV_WC_SUCCESS, 8);
  }
}

TEST_F(Errors, InvalidTransitionsAreRefused) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
            EINVAL);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL)
      << "two attributes are missing";
  attr.port_num = 9;
  EXPECT_EQ(
      ibv_modify_qp(a.qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS),
      EINVAL);
  EXPECT_EQ(a.State(), IBV_QPS_RESET);
}

TEST_F(Errors, ObjectsInUseAreNotDestroyed) {
  Peer shared(context_a.get(), {.shared = true});
  EXPECT_EQ(ibv_destroy_cq(a.send_cq.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(a.receive_cq.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_srq(shared.srq.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(a.pd.get()), EBUSY);
  Connect();
  EXPECT_EQ(Write().Run(a).status, IBV_WC_SUCCESS) << "the refused calls broke the queue pair";
}

TEST_F(Errors, RemoteWriteNeedsLocalWrite) {
  uint8_t byte = 0;
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(a.pd.get(), &byte, 1, int{IBV_ACCESS_REMOTE_WRITE}), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Errors, OptionalAccessFlagsAreIgnored) {
  Connect();
  for (const int flag : {int{IBV_ACCESS_MW_BIND}, int{IBV_ACCESS_ZERO_BASED}, int{IBV_ACCESS_HUGETLB},
                         int{IBV_ACCESS_RELAXED_ORDERING}, int{IBV_ACCESS_OPTIONAL_FIRST << 9},
                         int{IBV_ACCESS_OPTIONAL_RANGE}}) {
    const Buffer target(b.pd.get(), 4096, kAllAccess | flag);
    EXPECT_EQ(Write().To(target).Run(a).status, IBV_WC_SUCCESS) << flag;
  }
  const Buffer window(b.pd.get(), 4096, IBV_ACCESS_MW_BIND);
  ExpectFailure(Write().To(window), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Errors, AccessFlagsOfMissingFeaturesAreRefused) {
  alignas(4096) static std::array<uint8_t, 4096> page;
  const auto refusal = [&](int access) {
    errno = 0;
    EXPECT_EQ(ibv_reg_mr_iova2(a.pd.get(), page.data(), page.size(), 0, static_cast<unsigned>(access)),
              nullptr);
    return errno;
  };
  constexpr int kFlushGlobal = 1 << 8, kUnknown = 1 << 10;
  EXPECT_EQ(refusal(IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
  EXPECT_EQ(refusal(kFlushGlobal), EOPNOTSUPP);
  EXPECT_EQ(refusal(kUnknown), EINVAL);
}

TEST_F(Errors, QueuesBeyondTheLimitsOfTheDeviceAreRefused) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_a.get(), &device), 0);
  EXPECT_EQ(ibv_create_cq(context_a.get(), device.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = a.send_cq.get();
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = static_cast<uint32_t>(device.max_qp_wr) + 1;
  EXPECT_EQ(ibv_create_qp(a.pd.get(), &init), nullptr);
}

}  // namespace
}  // namespace verbs
