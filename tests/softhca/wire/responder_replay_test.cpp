#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "captures/capture.hpp"
#include "core/packets.hpp"
#include "wire/frames.hpp"
#include "wire/responder_fixture.hpp"

/// Replays captured requests of Linux's rdma_rxe to a responder, and compares its answers with rdma_rxe's.
namespace softhca {
namespace {

using mlx5::CqeOpcode;
using testing::ElementsAreArray;

constexpr size_t kMemoryBytes = 256 << 10;
constexpr size_t kReceiveOffset = kMemoryBytes / 2;
constexpr uint32_t kWindow = 0x80001c3;  // invalidated by send_inv
constexpr uint8_t kResources = 4;

/// An answer as text, with its payload.
struct Answer {
  std::string text;
  std::vector<uint8_t> payload;
  uint64_t original = 0;

  explicit Answer(const Packet& packet)
      : text(Describe(packet)),
        payload(packet.payload.begin(), packet.payload.end()),
        original(packet.original) {}
  friend bool operator==(const Answer&, const Answer&) = default;
};

void PrintTo(const Answer& answer, std::ostream* out) {
  *out << answer.text << " with " << answer.payload.size() << " bytes, original " << answer.original;
}

bool StartsWith(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

/// The queue pair and the memory of the captured server.
class Server {
 public:
  Server(const QpOptions& options, const QpChange& change, uint64_t address, std::vector<uint8_t> contents,
         uint32_t access)
      : memory(std::move(contents)),
        key(Register(address, memory.size(), access)),
        user(hca, pd, options),
        responder((user.Connect(user, change), user.qp()), sink) {}

  uint32_t Register(uint64_t address, size_t bytes, uint32_t access, bool revocable = false) {
    return hca.RegisterMemory({.pdn = pd,
                               .access = access,
                               .iova = address,
                               .memory = memory.data(),
                               .bytes = bytes,
                               .revocable = revocable});
  }
  void PostReceive(uint64_t address, uint32_t bytes) {
    user.PostReceive({{mlx5::ToBe32(bytes), mlx5::ToBe32(key), mlx5::ToBe64(address)}});
  }
  std::vector<Answer> Take(const Packet& packet) {
    responder.OnRequest(packet);
    while (responder.Flush()) {
    }
    std::vector<Answer> answers;
    for (; !sink.sent.empty(); sink.Take()) answers.emplace_back(sink.sent.front().packet);
    return answers;
  }

  Hca hca{TestDevice()};
  uint32_t pd = hca.AllocPd();
  std::vector<uint8_t> memory;
  uint32_t key;
  QpUser user;
  PacketRecorder sink;
  PacketResponder responder;
};

mlx5::Mtu MtuOf(uint32_t bytes) {
  mlx5::Mtu mtu = mlx5::Mtu::k256;
  while (MtuBytes(mtu) < bytes) mtu = static_cast<mlx5::Mtu>(static_cast<int>(mtu) + 1);
  return mtu;
}

/// Returns the requests that arrived undamaged.
std::vector<Packet> RequestsOf(const Capture& capture, const std::vector<CapturedFrame>& received) {
  std::vector<Packet> requests;
  for (const CapturedFrame& frame : received) {
    if (IsSealed(*ParseFrame(frame.bytes)) && frame.to_server) requests.push_back(*DecodeFrame(frame.bytes));
  }
  EXPECT_LE(requests.size(), 2 * capture.frames.size());
  return requests;
}

std::vector<Answer> AnswersOf(const Capture& capture) {
  std::vector<Answer> answers;
  for (const CapturedFrame& frame : capture.frames) {
    if (!frame.to_server) answers.emplace_back(*DecodeFrame(frame.bytes));
  }
  return answers;
}

/// Answers that differ on purpose, by capture and by rdma_rxe's text.
const std::map<std::string, std::map<std::string, std::string>> kDifferences = {
    // A repeated part of a read is a request of its own, so its answer starts with FIRST or ONLY (IBTA 1.4,
    // 9.7.5). rdma_rxe continues its first answer. Its requester accepts both.
    {"loss_read_response_last", {{"READ_RESP_LAST 258 msn 1", "READ_RESP_ONLY 258 msn 1"}}},
    {"loss_read_response_middle", {{"READ_RESP_MIDDLE 257", "READ_RESP_FIRST 257 msn 1"}}},
    // A request longer than its receive is an invalid request (IBTA 1.4, 9.7.4.1.6 and 9.9.3).
    {"nak_send_too_long", {{"NAK 0x63 at 256 msn 0", "NAK 0x61 at 256 msn 0"}}},
};

/// Replaces rdma_rxe's answers by the specification's: the last one if a text occurs more than once.
void Correct(const std::string& name, std::vector<Answer>& answers) {
  const auto differences = kDifferences.find(name);
  if (differences == kDifferences.end()) return;
  for (const auto& difference : differences->second) {
    const auto last = std::find_if(answers.rbegin(), answers.rend(),
                                   [&](const Answer& answer) { return answer.text == difference.first; });
    ASSERT_NE(last, answers.rend());
    last->text = difference.second;
  }
}

class ReplayTest : public testing::TestWithParam<std::string> {
 protected:
  ReplayTest() {
    const bool unreliable = StartsWith(capture.name, "uc_");
    const uint32_t qp_access = capture.name == "nak_qp_no_remote_write" ? kAccessLocalWrite : kAllAccess;
    const uint32_t access =
        capture.name == "nak_mr_no_remote_write" ? kAccessLocalWrite | kAccessRemoteRead : kAllAccess;
    server = std::make_unique<Server>(
        QpOptions{.service = unreliable ? mlx5::ServiceType::kUc : mlx5::ServiceType::kRc},
        QpChange{.access = qp_access,
                 .mtu = MtuOf(capture.path_mtu),
                 .receive_psn = capture.client.psn,
                 .max_reads_in = kResources,
                 .min_rnr_timer = capture.min_rnr_timer},
        capture.server.address, InitialMemory(), access);
    window = server->Register(capture.server.address, 8192, kAccessRemoteWrite, true);
  }

  /// Returns the memory before the requests. The first answer of an atomic tells the value of its word.
  std::vector<uint8_t> InitialMemory() const {
    std::vector<uint8_t> memory = InitialBytes(static_cast<uint8_t>(capture.seed + 128), kMemoryBytes);
    for (const Answer& answer : expected) {
      if (!StartsWith(answer.text, "ATOMIC_ACK")) continue;
      std::memcpy(memory.data() + 64, &answer.original, sizeof answer.original);
      break;
    }
    return memory;
  }
  uint32_t KeyFor(uint32_t rkey) const {
    if (rkey == capture.server.rkey) return server->key;
    return rkey == kWindow ? window : rkey;
  }
  /// Replaces the captured server's keys by this server's.
  Packet Translate(Packet packet) const {
    packet.memory.rkey = KeyFor(packet.memory.rkey);
    packet.atomic.rkey = KeyFor(packet.atomic.rkey);
    packet.invalidate_rkey = KeyFor(packet.invalidate_rkey);
    return packet;
  }
  /// Posts the receives of the captured server. After an RNR NAK, it posted one before the last attempt.
  void PostReceives(size_t index) {
    const bool waits = StartsWith(capture.name, "rnr_");
    const bool recovers = waits && capture.name != "rnr_nak_exhausted";
    const uint32_t bytes = capture.name == "nak_send_too_long" ? 16 : kReceiveOffset;
    const size_t when = recovers ? requests.size() - 1 : 0;
    if (index != when || (waits && !recovers)) return;
    for (int i = 0; i < 4; ++i) server->PostReceive(capture.server.address + kReceiveOffset, bytes);
  }
  bool Failed() const {
    const std::string last = expected.empty() ? "" : expected.back().text;
    return StartsWith(last, "NAK") || StartsWith(last, "RNR");
  }
  /// Returns the executed requests, each once and in order.
  std::vector<Packet> Executed() const {
    if (Failed()) return {};
    std::map<int32_t, Packet> by_psn;
    for (const Packet& packet : requests) by_psn.emplace(PsnDelta(packet.psn, capture.client.psn), packet);
    std::vector<Packet> executed;
    for (const auto& [delta, packet] : by_psn) executed.push_back(packet);
    return executed;
  }
  std::vector<uint8_t> ExpectedMemory() const;

  const Capture capture = ReadCapture(GetParam());
  const std::vector<CapturedFrame> received = Received(capture, true);
  const std::vector<Packet> requests = RequestsOf(capture, received);
  std::vector<Answer> expected = AnswersOf(capture);
  std::unique_ptr<Server> server;
  uint32_t window = 0;
};

/// Returns the memory after writes, sends and atomics.
std::vector<uint8_t> ReplayTest::ExpectedMemory() const {
  std::vector<uint8_t> memory = InitialMemory();
  size_t at = 0;
  for (const Packet& packet : Executed()) {
    if (packet.op == PacketOp::kFetchAdd || packet.op == PacketOp::kCompareSwap) {
      uint64_t word;
      uint8_t* const place = memory.data() + (packet.atomic.address - capture.server.address);
      std::memcpy(&word, place, sizeof word);
      const bool swaps = packet.op == PacketOp::kCompareSwap;
      if (!swaps) word += packet.atomic.swap_add;
      if (swaps && word == packet.atomic.compare) word = packet.atomic.swap_add;
      std::memcpy(place, &word, sizeof word);
    }
    if (IsFirst(packet.op) || IsOnly(packet.op)) {
      at = IsWrite(packet.op) ? packet.memory.address - capture.server.address : kReceiveOffset;
    }
    std::copy(packet.payload.begin(), packet.payload.end(), memory.begin() + static_cast<ptrdiff_t>(at));
    at += packet.payload.size();
  }
  return memory;
}

TEST_P(ReplayTest, AnswersAndExecutesAsLinuxDid) {
  std::vector<Answer> answers;
  for (size_t i = 0; i < requests.size(); ++i) {
    PostReceives(i);
    const std::vector<Answer> now = server->Take(Translate(requests[i]));
    answers.insert(answers.end(), now.begin(), now.end());
  }
  Correct(capture.name, expected);
  EXPECT_THAT(answers, ElementsAreArray(expected));
  EXPECT_TRUE(server->memory == ExpectedMemory());
}

TEST_P(ReplayTest, CompletesEachReceiveOnce) {
  for (size_t i = 0; i < requests.size(); ++i) {
    PostReceives(i);
    server->Take(Translate(requests[i]));
  }
  uint32_t bytes = 0;
  for (const Packet& packet : Executed()) {
    if (IsFirst(packet.op) || IsOnly(packet.op)) bytes = 0;
    bytes += static_cast<uint32_t>(packet.payload.size());
    const bool ends = IsLast(packet.op) || IsOnly(packet.op);
    if (!ends || (!IsSend(packet.op) && !HasImmediate(packet))) continue;
    const std::optional<Cqe> cqe = server->user.receive_cq.Poll();
    ASSERT_TRUE(cqe);
    EXPECT_NE(cqe->opcode, CqeOpcode::kResponderError);
    EXPECT_EQ(cqe->bytes, bytes);
    EXPECT_EQ(cqe->solicited, packet.solicited);
    if (HasImmediate(packet)) {
      EXPECT_EQ(cqe->imm, packet.imm);
    }
  }
  const std::optional<Cqe> rest = server->user.receive_cq.Poll();
  EXPECT_TRUE(!rest || rest->opcode == CqeOpcode::kResponderError);
}

class BatchReplayTest : public ReplayTest {};

/// Packets that arrive together get a single acknowledgement (IBTA 1.4, 9.7.5): the last that rdma_rxe sent.
TEST_P(BatchReplayTest, AcknowledgesABatchAsItsLastPacket) {
  PostReceives(0);
  for (const Packet& packet : requests) server->responder.OnRequest(Translate(packet));
  while (server->responder.Flush()) {
  }
  Correct(capture.name, expected);
  ASSERT_FALSE(server->sink.sent.empty());
  EXPECT_EQ(Describe(server->sink.sent.back().packet), expected.back().text);
  EXPECT_TRUE(server->memory == ExpectedMemory());
}

std::string NameOf(const testing::TestParamInfo<std::string>& capture) { return capture.param; }

std::vector<std::string> Captures(const std::vector<std::string>& without) {
  std::vector<std::string> names = CaptureNames();
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::any_of(without, [&](const std::string& prefix) { return StartsWith(name, prefix); });
  });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Captures, ReplayTest, testing::ValuesIn(Captures({"ud_"})), NameOf);
// Excluded captures have no acknowledgement at the end of a batch.
INSTANTIATE_TEST_SUITE_P(Captures, BatchReplayTest,
                         testing::ValuesIn(Captures({"ud_", "uc_", "retry_exceeded", "rnr_"})), NameOf);

/// Conversations with a peer in user space that violates the protocol. Each malformed request has a queue
/// pair of its own.
class HostPeerReplayTest : public testing::TestWithParam<std::string> {
 protected:
  static constexpr uint32_t kPeerQpn = 0x1234;
  static constexpr uint32_t kFirstPsn = 0xabc;
  static constexpr size_t kBytes = 65536;

  /// Restores the word that the peer's atomics change, and the bytes around it.
  void PrepareAtomics() {
    std::ranges::copy(InitialBytes(9, kBytes), server->memory.begin());
    const uint64_t word = 1000;
    std::memcpy(server->memory.data() + 64, &word, sizeof word);
  }
  void Start(uint64_t address) {
    server = std::make_unique<Server>(
        QpOptions{}, QpChange{.mtu = mlx5::Mtu::k1024, .receive_psn = kFirstPsn, .max_reads_in = kResources},
        address, InitialBytes(5, kBytes), kAllAccess);
    for (int i = 0; i < 2; ++i) server->PostReceive(address + kBytes / 2, 4096);
  }

  std::unique_ptr<Server> server;
};

TEST_P(HostPeerReplayTest, AnswersAsLinuxDid) {
  std::vector<Answer> answers, expected;
  std::optional<RemoteMemoryHeader> first;
  uint32_t qpn = 0;
  for (const FrameBytes& frame : ReadPcap(GetParam())) {
    const std::optional<Packet> decoded = DecodeFrame(frame);
    if (!decoded || !IsSealed(*ParseFrame(frame))) continue;
    if (decoded->dest_qpn == kPeerQpn) {
      expected.emplace_back(*decoded);
      continue;
    }
    Packet packet = *decoded;
    if (!first) first = packet.memory;
    if (packet.dest_qpn != qpn) Start(first->address);
    qpn = packet.dest_qpn;
    if (packet.op == PacketOp::kFetchAdd) PrepareAtomics();
    if (packet.memory.rkey == first->rkey) packet.memory.rkey = server->key;
    if (packet.atomic.rkey == first->rkey) packet.atomic.rkey = server->key;
    const std::vector<Answer> now = server->Take(packet);
    answers.insert(answers.end(), now.begin(), now.end());
  }
  EXPECT_EQ(expected.size(), 19u);
  EXPECT_THAT(answers, ElementsAreArray(expected));
}

INSTANTIATE_TEST_SUITE_P(Captures, HostPeerReplayTest,
                         testing::Values("host_peer_qemu.pcap", "host_peer_uml.pcap"),
                         [](const auto& file) { return file.param.substr(0, file.param.find('.')); });

}  // namespace
}  // namespace softhca
