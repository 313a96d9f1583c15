// A requester and a responder over a network that loses, repeats and reorders packets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "common/repetitions.hpp"
#include "core/queues.hpp"
#include "wire/connection_channel.hpp"
#include "wire/packet_recorder.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::ToBe32;
using mlx5::ToBe64;
using mlx5::WqeOpcode;

constexpr uint32_t kSlots = 64;  ///< slots for messages: more than are ever in progress
constexpr uint32_t kInProgress = 28;
constexpr uint32_t kSlotBytes = 8192;
constexpr uint32_t kReceives = 16;
constexpr uint64_t kPacketTimeNs = 2'000;

using Dice = std::mt19937_64;

uint32_t Roll(Dice& dice, uint32_t sides) { return static_cast<uint32_t>(dice() % sides); }

/// Faults of a network, each in packets of a thousand.
struct Weather {
  uint32_t drop, duplicate, reorder;
};

class LossySink : public PacketRecorder {
 public:
  LossySink(Dice& dice, const Weather& weather) : dice_(dice), weather_(weather) {}

  bool Send(const QueuePair& from, Packet packet, const Gather& payload) override {
    ++count;
    PacketRecorder::Send(from, packet, payload);
    if (Happens(weather_.drop)) {
      sent.pop_back();
    } else if (Happens(weather_.duplicate)) {
      PacketRecorder::Send(from, packet, payload);
    } else if (sent.size() > 1 && Happens(weather_.reorder)) {
      std::swap(sent.back(), sent[sent.size() - 2 - Roll(dice_, std::min<uint32_t>(sent.size() - 1, 5))]);
    }
    return true;
  }

  uint64_t count = 0;

 private:
  bool Happens(uint32_t of_thousand) { return Roll(dice_, 1000) < of_thousand; }

  Dice& dice_;
  Weather weather_;
};

/// One of two peers that send each other messages. It knows what the other must have received.
struct Side {
  Side(Hca& hca, uint32_t pd, Dice& random, const Weather& weather)
      : dice(random),
        user(hca, pd, {.send_depth = 64, .receive_depth = kReceives, .log_cq_depth = 7}),
        sink(random, weather),
        source(hca, pd, 2 * kSlotBytes),
        written(hca, pd, kSlots * kSlotBytes),
        counter(hca, pd, 8),
        landed(hca, pd, kSlots * kSlotBytes),
        received(hca, pd, size_t{kReceives} * kSlotBytes),
        expected(kSlots) {
    for (Region* region : {&source, &written}) {
      for (uint8_t& byte : region->memory) byte = static_cast<uint8_t>(random());
    }
  }

  void Connect(Side& other, const QpChange& change) {
    peer = &other;
    peer_memory = other.written.memory;
    user.Connect(other.user, change);
  }

  void PostReceives() {
    while (receives_posted - receives_done < kReceives) {
      const size_t offset = receives_posted++ % kReceives * kSlotBytes;
      user.PostReceive({{ToBe32(kSlotBytes), ToBe32(received.key), ToBe64(received.Address(offset))}});
    }
  }

  /// Posts a message of a random kind.
  void Post() {
    if (posted - completed == kInProgress) return;
    const uint32_t slot = posted % kSlots,
                   bytes = Roll(dice, 3) == 0 ? Roll(dice, kSlotBytes) : Roll(dice, 600);
    const size_t from = Roll(dice, kSlotBytes), at = size_t{slot} * kSlotBytes;
    expected[slot] = {};
    switch (Roll(dice, 5)) {
      case 0:
        PostWith(
            Payload(WqeBuilder(WqeOpcode::kRdmaWrite).Remote(peer->written.Address(at), peer->written.key),
                    source, from, bytes));
        std::copy_n(source.memory.begin() + from, bytes, peer_memory.begin() + at);
        break;
      case 1:
        PostWith(Payload(WqeBuilder(WqeOpcode::kSendImm).Imm(ToBe32(sends)), source, from, bytes));
        peer->arrivals.push_back({source.memory.begin() + from, source.memory.begin() + from + bytes});
        ++sends;
        break;
      case 2: {  // from a slot that stays unchanged until this completes
        const size_t behind = (size_t{posted} + kSlots - 1 - Roll(dice, 30)) % kSlots * kSlotBytes;
        PostWith(
            Payload(WqeBuilder(WqeOpcode::kRdmaRead).Remote(peer->written.Address(behind), peer->written.key),
                    landed, at, bytes));
        expected[slot].assign(peer_memory.begin() + behind, peer_memory.begin() + behind + bytes);
        break;
      }
      case 3:
        PostWith(WqeBuilder(WqeOpcode::kAtomicFa)
                     .Remote(peer->counter.Address(), peer->counter.key)
                     .Add(mlx5::AtomicSegment{ToBe64(1), {}})
                     .Data(landed.Address(at), 8, landed.key));
        expected[slot].resize(8);
        std::memcpy(expected[slot].data(), &adds, 8);
        ++adds;
        break;
      default:
        PostWith(WqeBuilder(WqeOpcode::kNop).Flags(mlx5::kCqeAlways | (Roll(dice, 2) ? mlx5::kFence : 0)));
    }
  }

  /// Takes completions and checks them.
  void Check() {
    while (const auto cqe = user.send_cq.Poll()) {
      ASSERT_EQ(cqe->opcode, CqeOpcode::kRequester) << mlx5::Describe(cqe->syndrome);
      ASSERT_EQ(cqe->wqe_index, static_cast<uint16_t>(completed)) << "exactly once, and in order";
      const std::vector<uint8_t>& bytes = expected[completed % kSlots];
      const auto place = landed.memory.begin() + size_t{completed % kSlots} * kSlotBytes;
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), place)) << completed;
      ++completed;
    }
    while (const auto cqe = user.receive_cq.Poll()) {
      ASSERT_EQ(cqe->opcode, CqeOpcode::kResponderSendImm);
      ASSERT_FALSE(arrivals.empty()) << "more arrived than was sent";
      ASSERT_EQ(cqe->imm, ToBe32(receives_done));
      ASSERT_EQ(cqe->bytes, arrivals.front().size());
      const auto place = received.memory.begin() + size_t{receives_done % kReceives} * kSlotBytes;
      ASSERT_TRUE(std::equal(arrivals.front().begin(), arrivals.front().end(), place));
      arrivals.pop_front();
      ++receives_done;
    }
  }

  /// Takes a few of the packets that have arrived.
  bool Listen(uint64_t now_ns) {
    std::deque<SentPacket>& inbox = peer->sink.sent;
    const uint32_t most = 1 + Roll(dice, 64);
    uint32_t taken = 0;
    for (; taken < most && !inbox.empty(); ++taken) {
      const SentPacket sent = peer->sink.Take();
      Packet packet = sent.packet;
      packet.payload = sent.payload;
      IsRequest(packet) ? channel.responder.OnRequest(packet) : channel.requester.OnResponse(packet, now_ns);
    }
    return channel.responder.Flush() || taken != 0;
  }

  bool IsDone() const { return posted == completed; }
  void CheckMemory() const {
    EXPECT_EQ(peer->written.memory, peer_memory);
    EXPECT_TRUE(peer->arrivals.empty());
    uint64_t count = 0;
    std::memcpy(&count, peer->counter.memory.data(), 8);
    EXPECT_EQ(count, adds);
  }

  void PostWith(const WqeBuilder& wqe) {
    user.Post(wqe);
    user.qp().doorbell_pending = true;
    ++posted;
  }
  /// Adds the payload in two pieces: in one if it is a single byte, in none if it is empty.
  WqeBuilder Payload(WqeBuilder wqe, const Region& region, size_t at, uint32_t bytes) {
    const uint32_t first = bytes / 3;
    if (first != 0) wqe.Data(region.Address(at), first, region.key);
    if (bytes != 0) wqe.Data(region.Address(at + first), bytes - first, region.key);
    return wqe;
  }

  Dice& dice;
  Side* peer = nullptr;
  QpUser user;
  LossySink sink;
  ConnectionChannel channel{user.qp(), sink, std::make_shared<BusyChannels>()};
  Region source, written, counter;  ///< the peer writes the latter two
  Region landed, received;
  std::vector<uint8_t> peer_memory;            ///< expected contents of the peer's `written`
  std::vector<std::vector<uint8_t>> expected;  ///< result of a read or atomic, by slot
  std::deque<std::vector<uint8_t>> arrivals;   ///< messages not received yet
  uint32_t posted = 0, completed = 0, sends = 0;
  uint32_t receives_posted = 0, receives_done = 0;
  uint64_t adds = 0;
};

void PrintTo(const Weather& weather, std::ostream* out) {
  *out << weather.drop << "/" << weather.duplicate << "/" << weather.reorder << " of 1000";
}

class LossyPairTest : public testing::TestWithParam<Weather> {};

TEST_P(LossyPairTest, DeliversEveryByteAndCompletesOnceInOrder) {
  constexpr auto kPackets = static_cast<uint64_t>(warpverbs::tests::Repetitions(400'000));
  constexpr uint32_t kFirstPsn = 0xfff000;
  const uint64_t seed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Dice dice(seed);
  Hca hca(TestDevice());
  const uint32_t pd = hca.AllocPd();
  Side a(hca, pd, dice, GetParam()), b(hca, pd, dice, GetParam());
  const QpChange change{
      .mtu = mlx5::Mtu::k256, .receive_psn = kFirstPsn, .send_psn = kFirstPsn, .min_rnr_timer = 1};
  a.Connect(b, change);
  b.Connect(a, change);
  uint64_t now_ns = 1'000'000'000;
  while (!a.IsDone() || !b.IsDone() || a.sink.count + b.sink.count < kPackets) {
    bool progress = false;
    for (Side* side : {&a, &b}) {
      if (a.sink.count + b.sink.count < kPackets) side->Post();
      if (Roll(dice, 50) == 0) side->PostReceives();
      progress |= side->Listen(now_ns);
      progress |= side->channel.requester.Run(now_ns);
      side->Check();
      if (HasFatalFailure()) return;
    }
    const uint64_t next_ns = std::min(a.channel.requester.NextNs(), b.channel.requester.NextNs());
    now_ns = progress || next_ns == UINT64_MAX ? now_ns + kPacketTimeNs : std::max(now_ns, next_ns);
  }
  a.CheckMemory();
  b.CheckMemory();
}

INSTANTIATE_TEST_SUITE_P(Networks, LossyPairTest,
                         testing::Values(Weather{0, 0, 0}, Weather{20, 0, 0}, Weather{0, 50, 0},
                                         Weather{0, 0, 50}, Weather{20, 20, 20}, Weather{80, 50, 50}));

}  // namespace
}  // namespace softhca
