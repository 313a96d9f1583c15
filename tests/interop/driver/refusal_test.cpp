// What a responder refuses: the requester learns why, nothing changes on either side, and what follows is
// flushed.
#include "conversation.hpp"

namespace interop {
namespace {

constexpr uint32_t kKeyBits = 0x00ff00;  // flipped, they make a key that nobody has

class Refusal : public Conversation {
 protected:
  PostSend WithUnknownKey(PostSend post) const {
    post = ToResponder(post);
    post.rkey ^= kKeyBits;
    return post;
  }
};

TEST_P(Refusal, WriteWithAnUnknownKey) {
  Start();
  ExpectRefused(WithUnknownKey({.opcode = IBV_WR_RDMA_WRITE, .bytes = 64}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Refusal, WriteOfManyPacketsWithAnUnknownKey) {
  Start();
  ExpectRefused(WithUnknownKey({.opcode = IBV_WR_RDMA_WRITE, .bytes = 3000}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Refusal, WriteWithImmediateWithAnUnknownKey) {
  Start();
  PostReceiveOf(0);
  ExpectRefused(WithUnknownKey({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .bytes = 64}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Refusal, ReadWithAnUnknownKey) {
  Start();
  ExpectRefused(WithUnknownKey({.opcode = IBV_WR_RDMA_READ, .bytes = 64}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Refusal, AtomicWithAnUnknownKey) {
  Start();
  ExpectRefused(WithUnknownKey({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .compare_add = 1}),
                IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Refusal, WriteBeyondTheRegion) {
  Start();
  ExpectRefused(ToResponder({.opcode = IBV_WR_RDMA_WRITE, .bytes = 64}, kRegionBytes - 32),
                IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Refusal, ReadBeyondTheRegion) {
  Start();
  ExpectRefused(ToResponder({.opcode = IBV_WR_RDMA_READ, .bytes = 4096}, kRegionBytes - 2048),
                IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Refusal, AtomicBeyondTheRegion) {
  Start();
  ExpectRefused(
      ToResponder({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .compare_add = 1}, kRegionBytes),
      IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Refusal, WriteToARegionWithoutRemoteWrite) {
  Start({.responder_region_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ});
  ExpectRefused(ToResponder({.opcode = IBV_WR_RDMA_WRITE, .bytes = 64}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Refusal, ReadOfARegionWithoutRemoteRead) {
  Start({.responder_region_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE});
  ExpectRefused(ToResponder({.opcode = IBV_WR_RDMA_READ, .bytes = 64}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Refusal, AtomicOnARegionWithoutRemoteAtomic) {
  Start(
      {.responder_region_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ});
  ExpectRefused(ToResponder({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .compare_add = 1}, 64),
                IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Refusal, WriteToAQueuePairWithoutRemoteWrite) {
  Start({.responder_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ});
  ExpectRefused(ToResponder({.opcode = IBV_WR_RDMA_WRITE, .bytes = 64}), IBV_WC_REM_INV_REQ_ERR);
}

TEST_P(Refusal, ReadFromAQueuePairWithoutRemoteRead) {
  Start({.responder_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE});
  ExpectRefused(ToResponder({.opcode = IBV_WR_RDMA_READ, .bytes = 64}), IBV_WC_REM_INV_REQ_ERR);
}

TEST_P(Refusal, AtomicToAQueuePairWithoutRemoteAtomic) {
  Start({.responder_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE});
  ExpectRefused(ToResponder({.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .bytes = 8, .swap = 1}, 64),
                IBV_WC_REM_INV_REQ_ERR);
}

TEST_P(Refusal, SendLongerThanTheReceive) {
  Start();
  PostReceiveOf(16);
  Post({.opcode = IBV_WR_SEND, .bytes = 64});
  // Linux 6.1 takes it for an error of the responder's own; IBTA asks for an invalid request.
  const bool rxe = responder().is_rxe();
  ExpectCompletion(requester(), 1, rxe ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR);
  ExpectCompletion(responder(), 77, rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR);
}

TEST_P(Refusal, SendWithoutAReceiveWaitsForOne) {
  Start({.rnr_timer = 18});  // 5 ms
  Post({.opcode = IBV_WR_SEND, .bytes = 64});
  ExpectNoCompletion(requester(), 60);
  PostReceiveOf(4096);
  ExpectCompletion(requester(), 1);
  ExpectReceived(IBV_WC_RECV, 64);
  CopyToResponder(0, kReceives, 64);
  ExpectMemory();
}

TEST_P(Refusal, WriteWithImmediateWithoutAReceiveWaitsForOne) {
  Start({.rnr_timer = 18});
  Post(ToResponder({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .bytes = 2 * 1024 + 1, .immediate = 9}));
  ExpectNoCompletion(requester(), 60);
  PostReceiveOf(0);
  ExpectCompletion(requester(), 1);
  ExpectReceived(IBV_WC_RECV_RDMA_WITH_IMM, 2 * 1024 + 1);
  CopyToResponder(0, kTarget, 2 * 1024 + 1);
  ExpectMemory();
}

TEST_P(Refusal, SendThatFindsNoReceiveGivesUpAfterItsRetries) {
  Start({.rnr_retries = 2, .rnr_timer = 18});
  ExpectRefused({.opcode = IBV_WR_SEND, .bytes = 64}, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_P(Refusal, WriteToNobodyGivesUpAfterItsRetries) {
  Start({.timeout = 12, .retries = 2, .wrong_qpn_bits = 0x20});
  ExpectRefused(ToResponder({.opcode = IBV_WR_RDMA_WRITE, .bytes = 128}), IBV_WC_RETRY_EXC_ERR);
}

TEST_P(Refusal, ReadFromNobodyGivesUpAfterItsRetries) {
  Start({.timeout = 12, .retries = 1, .wrong_qpn_bits = 0x20});
  ExpectRefused(ToResponder({.opcode = IBV_WR_RDMA_READ, .bytes = 128}), IBV_WC_RETRY_EXC_ERR);
}

INTEROP_BOTH_ROLES(Refusal);

}  // namespace
}  // namespace interop
