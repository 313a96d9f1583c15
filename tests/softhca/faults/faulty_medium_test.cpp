#include "faults/faulty_medium.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "wire/frame.hpp"
#include "wire/packet.hpp"

namespace softhca {
namespace {

using Bytes = std::vector<uint8_t>;

Flow FlowOverIpv4() {
  Flow flow;
  flow.source[10] = flow.source[11] = flow.destination[10] = flow.destination[11] = 0xff;
  return flow;
}

/// Returns a sealed frame with a packet of number `psn`.
Bytes MakeFrame(uint32_t psn, const Flow& flow = FlowOverIpv4()) {
  Bytes frame(kMaxFrameBytes);
  const Packet packet{.op = PacketOp::kSendOnly, .dest_qpn = 0x12, .psn = psn};
  const size_t headers = FrameHeaderBytes(flow);
  const size_t transport = EncodeHeaders(packet, 64, std::span(frame).subspan(headers)) + 64 + kIcrcBytes;
  WriteFrameHeaders(flow, transport, frame);
  frame.resize(headers + transport + FrameTrailerBytes(flow));
  SealFrame(frame, LinkOf(flow));
  return frame;
}

uint32_t PsnOf(std::span<const uint8_t> frame) {
  const auto parsed = ParseFrame(frame);
  return Decode(parsed->transport.first(parsed->transport.size() - kIcrcBytes))->psn;
}

/// Records sent frames, and delivers the frames that a test has queued.
class RecordingMedium : public Medium {
 public:
  struct Record {
    std::vector<Bytes> sent;
    std::deque<Bytes> arriving;
    int flushes = 0;
  };
  explicit RecordingMedium(Record& record) : record_(record) {}

  void Send(std::span<const uint8_t> frame) override {
    record_.sent.emplace_back(frame.begin(), frame.end());
  }
  void Flush() override { ++record_.flushes; }
  size_t Receive(size_t most, const FrameSink& sink) override {
    size_t count = 0;
    for (; count < most && !record_.arriving.empty(); ++count) {
      sink(record_.arriving.front());
      record_.arriving.pop_front();
    }
    return count;
  }
  void AddDescriptors(std::vector<int>& descriptors) const override { descriptors.push_back(42); }

 private:
  Record& record_;
};

class FaultyMediumTest : public testing::Test {
 protected:
  void Plan(std::vector<std::string> rules, mlx5::PortType link = mlx5::PortType::kEthernet) {
    const FaultPlan plan = ParseFaults(rules);
    medium = std::make_unique<FaultyMedium>(
        std::make_unique<RecordingMedium>(wire), plan, std::make_shared<FaultDice>(plan),
        [this] { return now_ns; }, link);
  }
  void Send(uint32_t psn) { medium->Send(MakeFrame(psn)); }
  std::vector<uint32_t> Sent() const {
    std::vector<uint32_t> psns;
    for (const Bytes& frame : wire.sent) psns.push_back(PsnOf(frame));
    return psns;
  }
  std::vector<uint32_t> Receive() {
    std::vector<uint32_t> psns;
    medium->Receive(64, [&](std::span<const uint8_t> frame) { psns.push_back(PsnOf(frame)); });
    return psns;
  }

  using Psns = std::vector<uint32_t>;
  uint64_t now_ns = 1'000'000'000;
  RecordingMedium::Record wire;
  std::unique_ptr<FaultyMedium> medium;
};

TEST_F(FaultyMediumTest, PassesEverythingUnchangedWithoutRules) {
  Plan({});
  for (uint32_t psn = 0; psn < 3; ++psn) Send(psn);
  EXPECT_EQ(Sent(), (Psns{0, 1, 2}));
  EXPECT_EQ(wire.sent[1], MakeFrame(1));
  wire.arriving = {MakeFrame(5), MakeFrame(6)};
  EXPECT_EQ(Receive(), (Psns{5, 6}));
  medium->Flush();
  EXPECT_EQ(wire.flushes, 1);
  EXPECT_EQ(medium->NextNs(), UINT64_MAX);
  std::vector<int> descriptors;
  medium->AddDescriptors(descriptors);
  EXPECT_EQ(descriptors, std::vector<int>{42});
}

TEST_F(FaultyMediumTest, DropsInTheDirectionThatTheRuleNames) {
  Plan({"drop,nth=2", "drop,nth=1,received"});
  for (uint32_t psn = 0; psn < 3; ++psn) Send(psn);
  EXPECT_EQ(Sent(), (Psns{0, 2}));
  wire.arriving = {MakeFrame(5), MakeFrame(6), MakeFrame(7)};
  EXPECT_EQ(Receive(), (Psns{6, 7}));
}

TEST_F(FaultyMediumTest, SendsADuplicateAfterItsOriginal) {
  Plan({"duplicate,nth=1"});
  Send(0);
  Send(1);
  EXPECT_EQ(Sent(), (Psns{0, 0, 1}));
}

TEST_F(FaultyMediumTest, SendsAReorderedFrameAfterTheNextOne) {
  Plan({"reorder,nth=1"});
  Send(0);
  EXPECT_EQ(Sent(), Psns{});
  Send(1);
  Send(2);
  EXPECT_EQ(Sent(), (Psns{1, 0, 2}));
}

TEST_F(FaultyMediumTest, SendsAReorderedFrameAfterItsTimeWhenNoneFollows) {
  Plan({"reorder,nth=1,by=50us"});
  Send(0);
  EXPECT_EQ(medium->NextNs(), now_ns + 50'000);
  now_ns += 49'999;
  medium->Flush();
  EXPECT_EQ(Sent(), Psns{});
  EXPECT_TRUE(medium->HasUnsent()) << "a program must not exit before the frame is sent";
  now_ns += 1;
  medium->Flush();
  EXPECT_EQ(Sent(), Psns{0});
  EXPECT_EQ(medium->NextNs(), UINT64_MAX);
  EXPECT_FALSE(medium->HasUnsent());
}

TEST_F(FaultyMediumTest, SendsAReorderedFrameInTimeWhenAnEarlierOneStillWaits) {
  Plan({"reorder,nth=1,by=50us", "reorder,nth=2,by=20us"});
  Send(0);
  Send(1);
  EXPECT_EQ(medium->NextNs(), now_ns + 20'000);
  now_ns += 20'000;
  medium->Flush();
  EXPECT_EQ(Sent(), Psns{1});
}

TEST_F(FaultyMediumTest, DeliversADelayedFrameAtItsTime) {
  Plan({"delay,nth=1,by=200us", "delay,nth=1,by=100us,received"});
  Send(0);
  Send(1);
  EXPECT_EQ(Sent(), Psns{1});
  wire.arriving = {MakeFrame(5), MakeFrame(6)};
  EXPECT_EQ(Receive(), Psns{6});
  EXPECT_EQ(medium->NextNs(), now_ns + 100'000);
  now_ns += 100'000;
  EXPECT_EQ(Receive(), Psns{5});
  now_ns += 100'000;
  medium->Flush();
  EXPECT_EQ(Sent(), (Psns{1, 0}));
}

TEST_F(FaultyMediumTest, CorruptFlipsOneBitThatTheIcrcDetects) {
  Plan({"corrupt"});
  for (uint32_t psn = 0; psn < 500; ++psn) {
    Send(psn);
    const Bytes good = MakeFrame(psn);
    const Bytes& bad = wire.sent.back();
    ASSERT_EQ(bad.size(), good.size());
    int bits = 0;
    for (size_t i = 0; i < good.size(); ++i) bits += __builtin_popcount(good[i] ^ bad[i]);
    EXPECT_EQ(bits, 1);
    EXPECT_TRUE(IsSealed(*ParseFrame(good)));
    EXPECT_FALSE(IsSealed(*ParseFrame(bad))) << "PSN " << psn;
  }
}

TEST_F(FaultyMediumTest, FlipChangesOneBitOfThePayloadAndSealsTheFrame) {
  Plan({"flip"});
  for (uint32_t psn = 0; psn < 500; ++psn) {
    Send(psn);
    const Bytes good = MakeFrame(psn);
    const Bytes& bad = wire.sent.back();
    ASSERT_EQ(bad.size(), good.size());
    const size_t payload = good.size() - kIcrcBytes - 64;
    int bits = 0;
    for (size_t i = 0; i < good.size() - kIcrcBytes; ++i) {
      bits += __builtin_popcount(good[i] ^ bad[i]);
      EXPECT_TRUE(i >= payload || good[i] == bad[i]) << i;
    }
    EXPECT_EQ(bits, 1);
    EXPECT_TRUE(IsSealed(*ParseFrame(bad))) << "PSN " << psn;
  }
}

TEST_F(FaultyMediumTest, FlipSealsAFrameOfInfiniBand) {
  Plan({"flip"}, mlx5::PortType::kInfiniBand);
  const Flow flow{.local = LocalRoute{.source = 1, .destination = 2}, .grh = false};
  const Bytes good = MakeFrame(7, flow);
  medium->Send(good);
  const Bytes& bad = wire.sent.back();
  EXPECT_NE(bad, good);
  ASSERT_EQ(bad.size(), good.size());
  EXPECT_TRUE(IsSealed(*ParseFrame(bad, mlx5::PortType::kInfiniBand)));
}

TEST_F(FaultyMediumTest, SlowReceiverTakesOneFrameAtATimeAndDropsTheRest) {
  Plan({"slow,every=50us"});
  wire.arriving = {MakeFrame(0), MakeFrame(1), MakeFrame(2)};
  EXPECT_EQ(Receive(), Psns{0});
  EXPECT_EQ(Receive(), Psns{});
  EXPECT_EQ(medium->NextNs(), now_ns + 50'000);
  now_ns += 50'000;
  EXPECT_EQ(Receive(), Psns{1});
  now_ns += 500'000;
  wire.arriving = {MakeFrame(3), MakeFrame(4)};
  EXPECT_EQ(Receive(), (Psns{2, 3})) << "idle time is not saved up";
  now_ns += 1'000'000;
  Receive();
  for (uint32_t psn = 0; psn < 5000; ++psn) {
    wire.arriving.push_back(MakeFrame(psn));
    if (wire.arriving.size() == 64) Receive();
  }
  Receive();
  now_ns += 1'000'000'000;
  EXPECT_LT(Receive().size(), 2000u);
}

TEST_F(FaultyMediumTest, PassesFramesOtherThanRoce) {
  Plan({"drop", "drop,received"});
  const Bytes arp(60, 0x08);
  medium->Send(arp);
  ASSERT_EQ(wire.sent.size(), 1u);
  EXPECT_EQ(wire.sent[0], arp);
  medium->Send(Bytes{});
  EXPECT_EQ(wire.sent.size(), 2u);
}

TEST_F(FaultyMediumTest, ReportsTheFramesThatItLoses) {
  Plan({"drop,nth=2", "drop,received,nth=1", "slow,every=1s"});
  std::map<std::string, uint64_t> losses;
  medium->ReportLosses([&](const char* reason, uint64_t frames) { losses[reason] += frames; });
  for (uint32_t psn = 0; psn < 3; ++psn) Send(psn);
  for (uint32_t psn = 0; psn < 1030; ++psn) wire.arriving.push_back(MakeFrame(psn));
  while (!wire.arriving.empty()) Receive();
  EXPECT_EQ(losses["by --fault drop"], 2);
  EXPECT_GE(losses["by --fault slow"], 1);
}

}  // namespace
}  // namespace softhca
