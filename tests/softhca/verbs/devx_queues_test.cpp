#include <gtest/gtest.h>

#include "verbs/devx.hpp"

namespace verbs {
namespace {

/// A queue pair that is connected, fails, is reset, and receives.
class DevxQueues : public Devx {
 protected:
  uint8_t Reset() {
    const uint8_t result = Modify(Mailbox("qp_2rst_in", k2Rst).Set("qpn", qpn));
    Store(kQpRecord, 0);
    Store(kQpRecord + 4, 0);
    return result;
  }
  /// Takes a completion of the sends, and makes room for another.
  mlx5_cqe64 TakeSend() {
    const mlx5_cqe64 cqe = WaitInRing(sends++);
    Store(kCqRecord, htobe32(sends));
    return cqe;
  }
  mlx5_cqe64 TakeReceive() {
    const mlx5_cqe64 cqe = WaitInRing(receives++, kReceiveCqRing);
    Store(kReceiveCqRecord, htobe32(receives));
    return cqe;
  }
  static uint32_t UserIndex(const mlx5_cqe64& cqe) { return be32toh(cqe.srqn_uidx) & 0xffffff; }

  uint32_t sends = 0, receives = 0;  ///< completions taken
};

TEST_F(DevxQueues, ResetRestartsTheQueuePairButNotItsCompletionQueue) {
  CreateQueues(false);
  for (int life = 0; life < 3; ++life) {
    Connect();
    for (uint16_t i = 0; i < 5; ++i) {
      data.As<uint64_t>(0) = 100u * static_cast<unsigned>(life) + i;
      PostWrite(i, 0, 8, data.rkey());
      const mlx5_cqe64 cqe = TakeSend();
      ASSERT_EQ(Opcode(cqe), MLX5_CQE_REQ) << life;
      ASSERT_EQ(be16toh(cqe.wqe_counter), i);
      ASSERT_EQ(data.As<uint64_t>(8), data.As<uint64_t>(0));
    }
    PostWrite(5, 0, 8, data.rkey() + 1);
    ASSERT_EQ(Opcode(TakeSend()), MLX5_CQE_REQ_ERR);
    EXPECT_EQ(Query().Get("qpc", "qpc.state"), 6u);
    ASSERT_EQ(Reset(), 0);
    const Mailbox out = Query();
    EXPECT_EQ(out.Get("qpc", "qpc.state"), 0u);
    EXPECT_EQ(out.Get("qpc", "qpc.hw_sq_wqebb_counter"), 0u);
    EXPECT_EQ(out.Get("qpc", "qpc.remote_qpn"), 0u);
  }
}

TEST_F(DevxQueues, ResetRestartsAQueuePairWithACollapsedQueue) {
  CreateQueues(true);
  for (int life = 0; life < 3; ++life) {
    Connect();
    PostWrite(0, 0, 8, data.rkey());
    WaitFor(kCqRing, [](const mlx5_cqe64& tail) {
      return Opcode(tail) == MLX5_CQE_REQ && be16toh(tail.wqe_counter) == 0;
    });
    PostWrite(1, 0, 8, data.rkey() + 1);
    const mlx5_cqe64 cqe = WaitFor(kCqRing, [](const mlx5_cqe64& tail) {
      return Opcode(tail) == MLX5_CQE_REQ_ERR && be16toh(tail.wqe_counter) == 1;
    });
    ASSERT_EQ(Error(cqe).syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR) << life;
    ASSERT_EQ(Reset(), 0);
  }
}

TEST_F(DevxQueues, ReceivesPrecedeTheSendsAndCompleteWithAllFields) {
  CreateReceivingQueues(false);
  Connect();
  for (uint16_t i = 0; i < 3 * kDepth; ++i) {
    data.As<uint64_t>(0) = 7u + i;
    const uint32_t imm = 0xa0b0c0d0 + i;
    PostReceive(i, 512, 64);
    const bool send = i % 2 == 0;
    if (send) {
      Post(i, {.opcode = MLX5_OPCODE_SEND_IMM, .imm = imm}, Local(0, 8 + i));
    } else {
      Post(i, {.opcode = MLX5_OPCODE_RDMA_WRITE_IMM, .imm = imm}, Remote(512, data.rkey()), Local(0, 8 + i));
    }
    ASSERT_EQ(Opcode(TakeSend()), MLX5_CQE_REQ);
    const mlx5_cqe64 cqe = TakeReceive();
    ASSERT_EQ(Opcode(cqe), send ? MLX5_CQE_RESP_SEND_IMM : MLX5_CQE_RESP_WR_IMM);
    ASSERT_EQ(be32toh(cqe.imm_inval_pkey), imm);
    ASSERT_EQ(be32toh(cqe.byte_cnt), 8u + i);
    ASSERT_EQ(be16toh(cqe.wqe_counter), i);
    ASSERT_EQ(be32toh(cqe.sop_drop_qpn) & 0xffffff, qpn);
    ASSERT_EQ(UserIndex(cqe), kUserIndex);
    ASSERT_EQ(data.As<uint64_t>(512), 7u + i);
  }
}

TEST_F(DevxQueues, ResetRestartsReceives) {
  CreateReceivingQueues(false);
  for (int life = 0; life < 3; ++life) {
    Connect();
    PostReceive(0, 512, 64);
    Post(0, {.opcode = MLX5_OPCODE_SEND}, Local(0, 8));
    ASSERT_EQ(Opcode(TakeSend()), MLX5_CQE_REQ);
    const mlx5_cqe64 cqe = TakeReceive();
    ASSERT_EQ(Opcode(cqe), MLX5_CQE_RESP_SEND);
    ASSERT_EQ(be16toh(cqe.wqe_counter), 0u);
    PostReceive(1, 512, 64);
    ASSERT_EQ(Reset(), 0);  // drops the receive without a completion
  }
}

TEST_F(DevxQueues, ErrorCompletionsOfBothSidesCarryTheUserIndex) {
  CreateReceivingQueues(false);
  Connect();
  PostReceive(0, 512, 8);
  PostReceive(1, 512, 8);
  Post(0, {.opcode = MLX5_OPCODE_SEND}, Local(0, 64));
  const mlx5_cqe64 sent = TakeSend(), received = TakeReceive(), flushed = TakeReceive();
  EXPECT_EQ(Opcode(sent), MLX5_CQE_REQ_ERR);
  EXPECT_EQ(Error(sent).syndrome, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
  EXPECT_EQ(Error(sent).s_wqe_opcode_qpn, htobe32(MLX5_OPCODE_SEND << 24 | qpn));
  EXPECT_EQ(Opcode(received), MLX5_CQE_RESP_ERR);
  EXPECT_EQ(Error(received).syndrome, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
  EXPECT_EQ(Error(flushed).syndrome, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
  EXPECT_EQ(be16toh(flushed.wqe_counter), 1u);
  for (const mlx5_cqe64& cqe : {sent, received, flushed}) EXPECT_EQ(UserIndex(cqe), kUserIndex);
}

/// A queue pair that waits for the completions of plain verbs queues.
class DevxWait : public DevxQueues {
 protected:
  static constexpr uint8_t kWait = 0x0f, kDump = 0x23;

  DevxWait() {
    CreateCq(false);
    CreateQp(QpCommand().Set("qpc", "qpc.cd_master", 1));
    Connect();
    worker.Connect(worker);
    mlx5dv_cq queue{};
    mlx5dv_obj object{};
    object.cq = {.in = worker.send_cq.get(), .out = &queue};
    EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
    worker_cqn = queue.cqn;
  }
  void PostWait(uint16_t index, uint32_t max_index) {
    const uint32_t segment[4] = {0, 0, htobe32(max_index), htobe32(worker_cqn)};
    Post(index, {.opcode = kWait, .flags = 0}, segment);
  }

  Peer worker{context.get()}, witness{context.get()};
  uint32_t worker_cqn = 0;
};

TEST_F(DevxWait, ContinuesWhenTheOtherQueueHasCompleted) {
  EXPECT_EQ(Query().Get("qpc", "qpc.cd_master"), 1u);
  for (uint16_t i = 0; i < 200; i += 2) {
    PostWait(i, i / 2);
    PostWrite(i + 1, 0, 8, data.rkey());
    ASSERT_EQ(Work(IBV_WR_RDMA_WRITE).Run(worker).status, IBV_WC_SUCCESS);
    ASSERT_EQ(be16toh(TakeSend().wqe_counter), i + 1);
  }
}

TEST_F(DevxWait, BlocksOnlyItsOwnQueuePair) {
  witness.Connect(witness);
  PostWait(0, 0);
  PostWrite(1, 0, 8, data.rkey());
  for (int i = 0; i < 100; ++i) ASSERT_EQ(Work(IBV_WR_RDMA_WRITE).Run(witness).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Query().Get("qpc", "qpc.hw_sq_wqebb_counter"), 0u);
  Work(IBV_WR_RDMA_WRITE).Post(worker);
  EXPECT_EQ(be16toh(TakeSend().wqe_counter), 1u);
}

TEST_F(DevxWait, CanBeResetAndDestroyed) {
  PostWait(0, 5);
  ASSERT_EQ(Reset(), 0);
  Connect();
  PostWrite(0, 0, 8, data.rkey());
  EXPECT_EQ(Opcode(TakeSend()), MLX5_CQE_REQ);
  PostWait(1, 5);
  qp.reset();
}

TEST_F(DevxWait, DumpCompletesInOrder) {
  PostWait(0, 0);
  Post(1, {.opcode = kDump}, Local(0, 1));
  Work(IBV_WR_RDMA_WRITE).Post(worker);
  const mlx5_cqe64 cqe = TakeSend();
  EXPECT_EQ(Opcode(cqe), MLX5_CQE_REQ);
  EXPECT_EQ(be32toh(cqe.sop_drop_qpn) >> 24, kDump);
}

}  // namespace
}  // namespace verbs
