// Successful transfers: each operation, lengths around the path MTU, each path MTU, immediate data,
// addresses.
#include <arpa/inet.h>

#include <initializer_list>

#include "conversation.hpp"

namespace interop {
namespace {

class Transfer : public Conversation {
 protected:
  /// Writes from the region's start to the target.
  void Write(uint32_t bytes, uint64_t id = 1) {
    Post(ToResponder({.opcode = IBV_WR_RDMA_WRITE, .id = id, .bytes = bytes}));
    ExpectCompletion(requester(), id);
    CopyToResponder(0, kTarget, bytes);
  }

  void Read(uint32_t bytes, uint64_t id = 1) {
    Post(ToResponder({.opcode = IBV_WR_RDMA_READ, .id = id, .bytes = bytes}));
    const ibv_wc completion = ExpectCompletion(requester(), id);
    EXPECT_EQ(completion.opcode, IBV_WC_RDMA_READ);
    CopyToRequester(kTarget, 0, bytes);
  }

  void WriteWithImmediate(uint32_t bytes) {
    PostReceiveOf(0);
    Post(ToResponder({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .bytes = bytes, .immediate = 0xdeadbeef}));
    ExpectCompletion(requester(), 1);
    ExpectImmediate(ExpectReceived(IBV_WC_RECV_RDMA_WITH_IMM, bytes), 0xdeadbeef);
    CopyToResponder(0, kTarget, bytes);
    ExpectMemory();
  }

  void Send(uint32_t bytes, uint32_t flags = 0) {
    PostReceiveOf(kRegionBytes / 2);
    Post({.opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED | flags, .bytes = bytes});
    ExpectCompletion(requester(), 1);
    const ibv_wc completion = ExpectReceived(IBV_WC_RECV, bytes);
    EXPECT_EQ(completion.wc_flags & IBV_WC_WITH_IMM, 0U);
    CopyToResponder(0, kReceives, bytes);
    ExpectMemory();
  }

  void SendWithImmediate(uint32_t bytes) {
    PostReceiveOf(kRegionBytes / 2);
    Post({.opcode = IBV_WR_SEND_WITH_IMM, .bytes = bytes, .immediate = 0x01020304});
    ExpectCompletion(requester(), 1);
    ExpectImmediate(ExpectReceived(IBV_WC_RECV, bytes), 0x01020304);
    CopyToResponder(0, kReceives, bytes);
    ExpectMemory();
  }

  static void ExpectImmediate(const ibv_wc& completion, uint32_t immediate) {
    EXPECT_TRUE(completion.wc_flags & IBV_WC_WITH_IMM);
    EXPECT_EQ(ntohl(completion.imm_data), immediate);
  }

  void WriteOverMtu(ibv_mtu mtu) {
    Start({.mtu = mtu});
    if (IsSkipped()) return;
    Write(3 * (128U << mtu) + 5);
    ExpectMemory();
  }
};

TEST_P(Transfer, WritesEachLength) {
  for (const uint32_t bytes : {0U, 1U, 2U, 3U, 64U, 1023U, 1024U, 1025U, 4109U}) {
    SCOPED_TRACE(bytes);
    Start();
    Write(bytes);
    ExpectMemory();
  }
}

TEST_P(Transfer, CompletesEmptyWrite) {
  Start();
  Write(0);
  ExpectMemory();
}

TEST_P(Transfer, Writes64KiB) {
  Start();
  Write(64 * 1024);
  ExpectMemory();
}

TEST_P(Transfer, WritesInPacketsOf256Bytes) { WriteOverMtu(IBV_MTU_256); }
TEST_P(Transfer, WritesInPacketsOf512Bytes) { WriteOverMtu(IBV_MTU_512); }
TEST_P(Transfer, WritesInPacketsOf2048Bytes) { WriteOverMtu(IBV_MTU_2048); }
TEST_P(Transfer, WritesInPacketsOf4096Bytes) { WriteOverMtu(IBV_MTU_4096); }

TEST_P(Transfer, ReadsInPacketsOf256Bytes) {
  Start({.mtu = IBV_MTU_256});
  Read(3 * 256 + 5);
  ExpectMemory();
}

TEST_P(Transfer, ReadsInPacketsOf4096Bytes) {
  Start({.mtu = IBV_MTU_4096});
  Read(3 * 4096 + 5);
  ExpectMemory();
}

TEST_P(Transfer, WritesImmediateWithoutPayload) {
  Start();
  WriteWithImmediate(0);
}

TEST_P(Transfer, WritesImmediateWithOnePacket) {
  Start();
  WriteWithImmediate(32);
}

TEST_P(Transfer, WritesImmediateWithManyPackets) {
  Start();
  WriteWithImmediate(2 * 1024 + 7);
}

TEST_P(Transfer, SendsEachLength) {
  for (const uint32_t bytes : {0U, 1U, 61U, 1024U}) {
    SCOPED_TRACE(bytes);
    Start();
    Send(bytes);
  }
}

TEST_P(Transfer, SendsManyPackets) {
  Start();
  Send(3 * 1024 + 2);
}

TEST_P(Transfer, SendsInlineBytes) {
  Start();
  Send(33, IBV_SEND_INLINE);
}

TEST_P(Transfer, SendsImmediateWithOnePacket) {
  Start();
  SendWithImmediate(16);
}

TEST_P(Transfer, SendsImmediateWithManyPackets) {
  Start();
  SendWithImmediate(2 * 1024 + 1);
}

TEST_P(Transfer, WakesSolicitedWaiterOnSolicitedSendOnly) {
  Start();
  PostReceiveOf(64, kReceives, 1);
  PostReceiveOf(64, kReceives, 2);
  responder().Ask(Arm{.solicited_only = true});
  Post({.opcode = IBV_WR_SEND, .bytes = 8});
  ExpectCompletion(requester(), 1);
  ExpectReceived(IBV_WC_RECV, 8, 1);
  EXPECT_EQ(responder().Ask(AwaitEvent{0}).value, 0U);
  Post({.opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED, .bytes = 8});
  ExpectCompletion(requester(), 1);
  EXPECT_EQ(responder().Ask(AwaitEvent{kTimeoutMs}).value, 1U);
  ExpectReceived(IBV_WC_RECV, 8, 2);
}

TEST_P(Transfer, ReadsEachLength) {
  for (const uint32_t bytes : {0U, 1U, 64U, 1024U, 1025U, 4109U}) {
    SCOPED_TRACE(bytes);
    Start();
    Read(bytes);
    ExpectMemory();
  }
}

TEST_P(Transfer, Reads64KiB) {
  Start();
  Read(64 * 1024);
  ExpectMemory();
}

TEST_P(Transfer, CompletesInOrderWhenReadsExceedTheLimit) {
  Start();
  constexpr uint32_t kReads = 10;
  constexpr uint32_t kApart = 4096;
  for (uint32_t i = 0; i < kReads; ++i)
    Post(ToResponder({.opcode = IBV_WR_RDMA_READ, .id = i, .offset = i * kApart, .bytes = 1024 + i},
                     i * kApart));
  for (uint32_t i = 0; i < kReads; ++i) {
    ExpectCompletion(requester(), i);
    CopyToRequester(i * kApart, i * kApart, 1024 + i);
  }
  ExpectMemory();
}

TEST_P(Transfer, CompletesMixedOperationsInOrder) {
  Start();
  for (uint64_t id = 81; id < 84; ++id)
    PostReceiveOf(4096, kReceives + 4096 * static_cast<uint32_t>(id - 81), id);
  responder().Ask(Store{.offset = 64, .value = 41});
  std::fill_n(responder_memory_.begin() + 64, 8, 0);
  Post(ToResponder({.opcode = IBV_WR_RDMA_WRITE, .id = 1, .bytes = 2048}));
  Post({.opcode = IBV_WR_SEND, .id = 2, .bytes = 100});
  Post(ToResponder({.opcode = IBV_WR_RDMA_READ, .id = 3, .offset = 8192, .bytes = 3000}, 8192));
  Post(ToResponder(
      {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .id = 4, .offset = 16384, .bytes = 8, .compare_add = 1}, 64));
  Post(ToResponder({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .id = 5, .bytes = 10, .immediate = 5}, 256));
  Post({.opcode = IBV_WR_SEND_WITH_IMM, .id = 6, .bytes = 5, .immediate = 6});
  for (uint64_t id = 1; id <= 6; ++id) ExpectCompletion(requester(), id);
  ExpectReceived(IBV_WC_RECV, 100, 81);
  ExpectImmediate(ExpectReceived(IBV_WC_RECV_RDMA_WITH_IMM, 10, 82), 5);
  ExpectImmediate(ExpectReceived(IBV_WC_RECV, 5, 83), 6);

  CopyToResponder(0, kTarget, 2048);
  CopyToResponder(0, kReceives, 100);
  CopyToRequester(8192, 8192, 3000);
  CopyToResponder(0, 256, 10);
  CopyToResponder(0, kReceives + 2 * 4096, 5);
  responder_memory_[64] = 42;
  std::fill_n(requester_memory_.begin() + 16384, 8, 0);
  requester_memory_[16384] = 41;
  ExpectMemory();
}

TEST_P(Transfer, WrapsPsn) {
  Start({.requester_psn = 0xfffffe, .responder_psn = 0xffffff});
  Write(4 * 1024);
  ExpectMemory();
  Read(2048, 2);
  ExpectMemory();
}

TEST_P(Transfer, WrapsPsnDuringRead) {
  Start({.requester_psn = 0xfffffe});
  Read(5 * 1024);
  ExpectMemory();
}

TEST_P(Transfer, WritesAndReadsOverIpv6) {
  Start({.family = Family::kIpv6});
  if (IsSkipped()) return;
  Write(2 * 1024 + 3);
  ExpectMemory();
  Read(3 * 1024 + 1, 2);
  ExpectMemory();
}

TEST_P(Transfer, WritesAndReadsBetweenLinkLocalAddresses) {
  Start({.family = Family::kLinkLocal});
  if (IsSkipped()) return;
  Write(2 * 1024 + 3);
  ExpectMemory();
  Read(3 * 1024 + 1, 2);
  ExpectMemory();
}

TEST_P(Transfer, WritesWithTrafficClass) {
  Start({.traffic_class = 0x68});
  Write(1024 + 3);
  ExpectMemory();
}

TEST_P(Transfer, WritesWithTrafficClassOverIpv6) {
  Start({.family = Family::kIpv6, .traffic_class = 0x68});
  if (IsSkipped()) return;
  Write(33);
  ExpectMemory();
}

INTEROP_BOTH_ROLES(Transfer);

}  // namespace
}  // namespace interop
