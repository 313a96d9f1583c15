// Requests that fail: the requester gets the right status, no memory changes, and later requests are flushed.
#include "conversation.hpp"

namespace interop {
namespace {

constexpr uint32_t kKeyBits = 0x00ff00;  // flipping them gives an unknown key

class Errors : public Conversation {
 protected:
  PostSend WithUnknownKey(PostSend post) const {
    post = ToResponder(post);
    post.rkey ^= kKeyBits;
    return post;
  }
};

TEST_P(Errors, RejectsWriteWithUnknownKey) {
  Start();
  ExpectError(WithUnknownKey({.opcode = IBV_WR_RDMA_WRITE, .bytes = 64}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Errors, RejectsLongWriteWithUnknownKey) {
  Start();
  ExpectError(WithUnknownKey({.opcode = IBV_WR_RDMA_WRITE, .bytes = 3000}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Errors, RejectsWriteWithImmediateAndUnknownKey) {
  Start();
  PostReceiveOf(0);
  ExpectError(WithUnknownKey({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .bytes = 64}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Errors, RejectsReadWithUnknownKey) {
  Start();
  ExpectError(WithUnknownKey({.opcode = IBV_WR_RDMA_READ, .bytes = 64}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Errors, RejectsAtomicWithUnknownKey) {
  Start();
  ExpectError(WithUnknownKey({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .compare_add = 1}),
              IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Errors, RejectsWriteBeyondRegion) {
  Start();
  ExpectError(ToResponder({.opcode = IBV_WR_RDMA_WRITE, .bytes = 64}, kRegionBytes - 32),
              IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Errors, RejectsReadBeyondRegion) {
  Start();
  ExpectError(ToResponder({.opcode = IBV_WR_RDMA_READ, .bytes = 4096}, kRegionBytes - 2048),
              IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Errors, RejectsAtomicBeyondRegion) {
  Start();
  ExpectError(
      ToResponder({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .compare_add = 1}, kRegionBytes),
      IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Errors, RejectsWriteToRegionWithoutRemoteWrite) {
  Start({.responder_region_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ});
  ExpectError(ToResponder({.opcode = IBV_WR_RDMA_WRITE, .bytes = 64}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Errors, RejectsReadOfRegionWithoutRemoteRead) {
  Start({.responder_region_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE});
  ExpectError(ToResponder({.opcode = IBV_WR_RDMA_READ, .bytes = 64}), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Errors, RejectsAtomicOnRegionWithoutRemoteAtomic) {
  Start(
      {.responder_region_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ});
  ExpectError(ToResponder({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .compare_add = 1}, 64),
              IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Errors, RejectsWriteToQueuePairWithoutRemoteWrite) {
  Start({.responder_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ});
  ExpectError(ToResponder({.opcode = IBV_WR_RDMA_WRITE, .bytes = 64}), IBV_WC_REM_INV_REQ_ERR);
}

TEST_P(Errors, RejectsReadFromQueuePairWithoutRemoteRead) {
  Start({.responder_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE});
  ExpectError(ToResponder({.opcode = IBV_WR_RDMA_READ, .bytes = 64}), IBV_WC_REM_INV_REQ_ERR);
}

TEST_P(Errors, RejectsAtomicToQueuePairWithoutRemoteAtomic) {
  Start({.responder_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE});
  ExpectError(ToResponder({.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .bytes = 8, .swap = 1}, 64),
              IBV_WC_REM_INV_REQ_ERR);
}

TEST_P(Errors, RejectsSendLongerThanReceive) {
  Start();
  PostReceiveOf(16);
  Post({.opcode = IBV_WR_SEND, .bytes = 64});
  // Linux 6.1 reports an error of the responder; the IBTA requires an invalid request.
  const bool rxe = responder().is_rxe();
  ExpectCompletion(requester(), 1, rxe ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR);
  ExpectCompletion(responder(), 77, rxe ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR);
}

TEST_P(Errors, DelaysSendUntilReceiveIsPosted) {
  Start({.rnr_timer = 18});  // 5 ms
  Post({.opcode = IBV_WR_SEND, .bytes = 64});
  ExpectNoCompletion(requester(), 60);
  PostReceiveOf(4096);
  ExpectCompletion(requester(), 1);
  ExpectReceived(IBV_WC_RECV, 64);
  CopyToResponder(0, kReceives, 64);
  ExpectMemory();
}

TEST_P(Errors, DelaysWriteWithImmediateUntilReceiveIsPosted) {
  Start({.rnr_timer = 18});
  Post(ToResponder({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .bytes = 2 * 1024 + 1, .immediate = 9}));
  ExpectNoCompletion(requester(), 60);
  PostReceiveOf(0);
  ExpectCompletion(requester(), 1);
  ExpectReceived(IBV_WC_RECV_RDMA_WITH_IMM, 2 * 1024 + 1);
  CopyToResponder(0, kTarget, 2 * 1024 + 1);
  ExpectMemory();
}

TEST_P(Errors, FailsSendWithoutReceiveAfterRnrRetries) {
  Start({.rnr_retries = 2, .rnr_timer = 18});
  ExpectError({.opcode = IBV_WR_SEND, .bytes = 64}, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_P(Errors, FailsWriteToUnknownQueuePairAfterRetries) {
  Start({.timeout = 12, .retries = 2, .wrong_qpn_bits = 0x20});
  ExpectError(ToResponder({.opcode = IBV_WR_RDMA_WRITE, .bytes = 128}), IBV_WC_RETRY_EXC_ERR);
}

TEST_P(Errors, FailsReadFromUnknownQueuePairAfterRetries) {
  Start({.timeout = 12, .retries = 1, .wrong_qpn_bits = 0x20});
  ExpectError(ToResponder({.opcode = IBV_WR_RDMA_READ, .bytes = 128}), IBV_WC_RETRY_EXC_ERR);
}

INTEROP_BOTH_ROLES(Errors);

}  // namespace
}  // namespace interop
