// Unreliable connections and datagrams: no acknowledgements, and invalid packets are dropped silently.
#include <arpa/inet.h>

#include <cstring>

#include "conversation.hpp"

namespace interop {
namespace {

constexpr uint32_t kGrhBytes = 40;  // global grh header, before the datagram in a receive

class Unreliable : public Conversation {
 protected:
  /// Copies the received header to the expected memory, since its contents depend on the fabric; returns it.
  std::array<uint8_t, kGrhBytes> TakeGrh() {
    std::array<uint8_t, kGrhBytes> grh;
    for (uint32_t i = 0; i < kGrhBytes; i += 8) {
      const uint64_t word = responder().Ask(Load{kReceives + i}).value;
      std::memcpy(grh.data() + i, &word, sizeof(word));
    }
    std::memcpy(responder_memory_.data() + kReceives, grh.data(), kGrhBytes);
    return grh;
  }

  ibv_wc ExpectDatagram(uint32_t bytes) {
    ExpectCompletion(requester(), 1);
    const ibv_wc completion = ExpectReceived(IBV_WC_RECV, kGrhBytes + bytes);
    EXPECT_EQ(completion.src_qp, requester_address_.qpn);
    EXPECT_TRUE(completion.wc_flags & IBV_WC_GRH);
    CopyToResponder(0, kReceives + kGrhBytes, bytes);
    return completion;
  }
};

TEST_P(Unreliable, WritesOverUc) {
  Start({.type = IBV_QPT_UC});
  PostReceiveOf(64);
  Post(ToResponder({.opcode = IBV_WR_RDMA_WRITE, .id = 1, .bytes = 2 * 1024 + 9}));
  Post({.opcode = IBV_WR_SEND, .id = 2, .bytes = 8});  // sent after the write, so its completion covers both
  ExpectCompletion(requester(), 1);
  ExpectCompletion(requester(), 2);
  ExpectReceived(IBV_WC_RECV, 8);
  CopyToResponder(0, kTarget, 2 * 1024 + 9);
  CopyToResponder(0, kReceives, 8);
  ExpectMemory();
}

TEST_P(Unreliable, WritesImmediateOverUc) {
  Start({.type = IBV_QPT_UC});
  PostReceiveOf(0);
  Post(ToResponder({.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .bytes = 1024 + 1, .immediate = 0x12345678}));
  ExpectCompletion(requester(), 1);
  EXPECT_EQ(ntohl(ExpectReceived(IBV_WC_RECV_RDMA_WITH_IMM, 1024 + 1).imm_data), 0x12345678U);
  CopyToResponder(0, kTarget, 1024 + 1);
  ExpectMemory();
}

TEST_P(Unreliable, SendsOverUc) {
  Start({.type = IBV_QPT_UC});
  PostReceiveOf(8192);
  Post({.opcode = IBV_WR_SEND, .bytes = 3 * 1024 + 2});
  ExpectCompletion(requester(), 1);
  ExpectReceived(IBV_WC_RECV, 3 * 1024 + 2);
  CopyToResponder(0, kReceives, 3 * 1024 + 2);
  ExpectMemory();
}

TEST_P(Unreliable, DropsUcWriteWithUnknownKey) {
  Start({.type = IBV_QPT_UC});
  PostSend post = ToResponder({.opcode = IBV_WR_RDMA_WRITE, .bytes = 64});
  post.rkey ^= 0x00ff00;
  Post(post);
  ExpectCompletion(requester(), 1);
  ExpectNoCompletion(responder(), 50);
  ExpectMemory();
}

TEST_P(Unreliable, DeliversDatagram) {
  Start({.type = IBV_QPT_UD});
  PostReceiveOf(4096);
  Post({.opcode = IBV_WR_SEND, .bytes = 99});
  ExpectDatagram(99);
  TakeGrh();
  ExpectMemory();
}

TEST_P(Unreliable, DeliversDatagramWithImmediate) {
  Start({.type = IBV_QPT_UD});
  PostReceiveOf(4096);
  Post({.opcode = IBV_WR_SEND_WITH_IMM, .bytes = 1024, .immediate = 0xcafef00d});
  const ibv_wc completion = ExpectDatagram(1024);
  EXPECT_TRUE(completion.wc_flags & IBV_WC_WITH_IMM);
  EXPECT_EQ(ntohl(completion.imm_data), 0xcafef00dU);
  TakeGrh();
  ExpectMemory();
}

TEST_P(Unreliable, DeliversDatagramOverIpv6) {
  Start({.type = IBV_QPT_UD, .family = Family::kIpv6});
  if (IsSkipped()) return;
  PostReceiveOf(4096);
  Post({.opcode = IBV_WR_SEND, .bytes = 99});
  ExpectDatagram(99);
  const auto grh = TakeGrh();
  EXPECT_EQ(std::memcmp(grh.data() + 8, requester_address_.gid.raw, 16), 0);   // source
  EXPECT_EQ(std::memcmp(grh.data() + 24, responder_address_.gid.raw, 16), 0);  // destination
  ExpectMemory();
}

TEST_P(Unreliable, DeliversTrafficClassAndAddressesOfDatagram) {
  Start({.type = IBV_QPT_UD, .traffic_class = 0x68});
  PostReceiveOf(4096);
  Post({.opcode = IBV_WR_SEND, .bytes = 4});
  ExpectDatagram(4);
  const auto grh = TakeGrh();  // an IPv4 header in its last 20 bytes
  EXPECT_EQ(grh[20], 0x45);
  EXPECT_EQ(grh[21], 0x68);
  EXPECT_EQ(std::memcmp(grh.data() + 32, requester_address_.gid.raw + 12, 4), 0);
  EXPECT_EQ(std::memcmp(grh.data() + 36, responder_address_.gid.raw + 12, 4), 0);
  ExpectMemory();
}

TEST_P(Unreliable, DropsDatagramWithWrongKey) {
  Start({.type = IBV_QPT_UD});
  PostReceiveOf(4096);
  Post({.opcode = IBV_WR_SEND, .bytes = 99, .q_key = 0x22222222});
  ExpectCompletion(requester(), 1);
  ExpectNoCompletion(responder(), 50);
  Post({.opcode = IBV_WR_SEND, .bytes = 4});  // the receive must still be posted
  ExpectDatagram(4);
  TakeGrh();
  ExpectMemory();
}

INTEROP_BOTH_ROLES(Unreliable);

}  // namespace
}  // namespace interop
