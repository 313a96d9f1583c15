#include "conversation.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace interop {
namespace {

constexpr uint32_t kRequesterSeed = 1;
constexpr uint32_t kResponderSeed = 129;

std::vector<uint8_t> Pattern(uint32_t seed) {
  std::vector<uint8_t> bytes(kRegionBytes);
  for (uint32_t i = 0; i < kRegionBytes; ++i) bytes[i] = PatternByte(seed, i);
  return bytes;
}

/// Executes a command that cannot fail unless the peer is broken; throws if it does.
Answer Require(RemoteParty& party, const Command& command, const std::string& step) {
  const Answer answer = party.Ask(command);
  if (answer.error)
    throw std::runtime_error(party.name() + " cannot " + step + ": " + strerror(answer.error));
  return answer;
}

Connect ConnectTo(const Address& peer, const PairOptions& options) {
  return {.peer = peer,
          .mtu = options.mtu,
          .timeout = options.timeout,
          .retries = options.retries,
          .rnr_retries = options.rnr_retries,
          .rnr_timer = options.rnr_timer,
          .traffic_class = options.traffic_class};
}

}  // namespace

Peers peers{};

std::string RequesterName(const testing::TestParamInfo<Requester>& info) {
  const auto [from, to] = info.param == Requester::kFirst ? std::pair(peers.first, peers.second)
                                                          : std::pair(peers.second, peers.first);
  return from && to ? from->name() + "_to_" + to->name() : std::to_string(info.index);
}

void Conversation::Start(const PairOptions& options) {
  const Open from{
      .type = options.type, .family = options.family, .psn = options.requester_psn, .seed = kRequesterSeed};
  const Open to{.type = options.type,
                .family = options.family,
                .psn = options.responder_psn,
                .region_access = options.responder_region_access,
                .seed = kResponderSeed};
  const Answer requester_open = requester().Ask(from);
  const Answer responder_open = responder().Ask(to);
  if (requester_open.error == ENOENT || responder_open.error == ENOENT)
    GTEST_SKIP() << "a peer has no RoCE v2 address of this family";
  if (requester_open.error || responder_open.error)
    throw std::runtime_error("a peer cannot create a queue pair");
  requester_address_ = requester_open.address;
  responder_address_ = responder_open.address;
  requester_memory_ = Pattern(kRequesterSeed);
  responder_memory_ = Pattern(kResponderSeed);

  Connect responder_connect = ConnectTo(requester_address_, options);
  responder_connect.access = options.responder_access;
  Require(responder(), responder_connect, "connect");
  Connect requester_connect = ConnectTo(responder_address_, options);
  requester_connect.peer.qpn ^= options.wrong_qpn_bits;
  Require(requester(), requester_connect, "connect");
}

PostSend Conversation::ToResponder(PostSend post, uint32_t remote_offset) const {
  post.remote = responder_address_.region + remote_offset;
  post.rkey = responder_address_.rkey;
  return post;
}

void Conversation::Post(const PostSend& post) { Require(requester(), post, "post a request"); }

void Conversation::PostReceiveOf(uint32_t bytes, uint32_t offset, uint64_t id) {
  Require(responder(), PostReceive{.id = id, .offset = offset, .bytes = bytes}, "post a receive");
}

ibv_wc Conversation::ExpectCompletion(RemoteParty& party, uint64_t id, ibv_wc_status status) {
  const Answer answer = Require(party, Poll{kTimeoutMs}, "poll");
  const ibv_wc& completion = answer.completion;
  EXPECT_TRUE(answer.completed) << party.name() << " saw no completion of entry " << id;
  if (!answer.completed) return completion;
  EXPECT_EQ(completion.wr_id, id) << party.name();
  EXPECT_EQ(completion.status, status) << party.name() << ": " << ibv_wc_status_str(completion.status)
                                       << " and not " << ibv_wc_status_str(status);
  return completion;
}

void Conversation::ExpectNoCompletion(RemoteParty& party, uint32_t within_ms) {
  EXPECT_FALSE(Require(party, Poll{within_ms}, "poll").completed) << party.name();
}

ibv_wc Conversation::ExpectReceived(ibv_wc_opcode opcode, uint32_t bytes, uint64_t id) {
  const ibv_wc completion = ExpectCompletion(responder(), id);
  EXPECT_EQ(completion.opcode, opcode);
  EXPECT_EQ(completion.byte_len, bytes);
  return completion;
}

void Conversation::ExpectError(const PostSend& post, ibv_wc_status status) {
  Post(post);
  ExpectCompletion(requester(), post.id, status);
  EXPECT_EQ(Require(requester(), QueryState{}, "query its state").value, IBV_QPS_ERR);
  Post({.id = post.id + 1});
  ExpectCompletion(requester(), post.id + 1, IBV_WC_WR_FLUSH_ERR);
  ExpectMemory();
}

void Conversation::ExpectMemory() {
  CompareMemory(requester(), requester_memory_);
  CompareMemory(responder(), responder_memory_);
}

void Conversation::CompareMemory(RemoteParty& party, const std::vector<uint8_t>& expected) {
  if (Require(party, Sum{}, "sum its memory").value == Checksum(expected.data(), kRegionBytes)) return;
  constexpr uint32_t kWord = sizeof(uint64_t);
  for (uint32_t offset = 0; offset < kRegionBytes; offset += kWord) {
    if (offset % 4096 == 0 && Require(party, Sum{offset, 4096}, "sum its memory").value ==
                                  Checksum(expected.data() + offset, 4096)) {
      offset += 4096 - kWord;
      continue;
    }
    uint64_t wanted = 0;
    std::memcpy(&wanted, expected.data() + offset, kWord);
    const uint64_t found = Require(party, Load{offset}, "load").value;
    if (found == wanted) continue;
    ADD_FAILURE() << party.name() << " has " << std::hex << found << " and not " << wanted << " at offset 0x"
                  << offset;
    return;
  }
}

void Conversation::CopyToResponder(uint32_t from, uint32_t to, uint32_t bytes) {
  std::copy_n(requester_memory_.begin() + from, bytes, responder_memory_.begin() + to);
}

void Conversation::CopyToRequester(uint32_t from, uint32_t to, uint32_t bytes) {
  std::copy_n(responder_memory_.begin() + from, bytes, requester_memory_.begin() + to);
}

}  // namespace interop
