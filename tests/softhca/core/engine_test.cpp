#include "core/engine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <thread>
#include <utility>

#include "core/queues.hpp"
#include "wire/wire_network.hpp"

namespace softhca {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

using mlx5::CqeOpcode;
using mlx5::QpState;
using mlx5::Syndrome;
using mlx5::WqeOpcode;

constexpr auto kDeadline = std::chrono::seconds(20);

std::unique_ptr<Engine> MakeEngine(const std::vector<DeviceConfig>& configs) {
  std::vector<std::unique_ptr<Hca>> devices;
  std::vector<Hca*> ends;
  for (const DeviceConfig& config : configs) {
    devices.push_back(std::make_unique<Hca>(config));
    ends.push_back(devices.back().get());
  }
  return std::make_unique<Engine>(std::move(devices),
                                  std::make_unique<WireNetwork>(std::move(ends), WireOptions{}));
}

/// Two devices with a queue pair each, executed by the engine's thread.
class EngineTest : public testing::Test {
 protected:
  EngineTest() : engine(MakeEngine({TestDevice(1), TestDevice(2)})) {
    const auto lock = engine->Pause();
    Hca& first = *engine->devices()[0];
    Hca& second = *engine->devices()[1];
    const uint32_t pd = first.AllocPd(), other_pd = second.AllocPd();
    a.emplace(first, pd);
    b.emplace(second, other_pd);
    local.emplace(first, pd, 4096);
    remote.emplace(second, other_pd, 4096);
  }

  void Connect(const QpChange& change_a = {}) {
    const auto lock = engine->Pause();
    a->Connect(*b, change_a);
    b->Connect(*a);
  }
  WqeBuilder Write() {
    return WqeBuilder(WqeOpcode::kRdmaWrite)
        .Remote(remote->Address(), remote->key)
        .Data(local->Address(), 8, local->key);
  }
  static Cqe Wait(CqMemory& cq) {
    const auto deadline = steady_clock::now() + kDeadline;
    while (steady_clock::now() < deadline) {
      if (const auto cqe = cq.Poll()) return *cqe;
      std::this_thread::yield();
    }
    ADD_FAILURE() << "no completion";
    return {};
  }
  /// Blocks until the engine has scanned all queues twice.
  void WaitForTwoScans() {
    QpUser* const witness = &*b;
    for (int i = 0; i < 2; ++i) {
      witness->Post(WqeBuilder(WqeOpcode::kNop));
      witness->Ring();
      Wait(witness->send_cq);
    }
  }

  std::optional<QpUser> a, b;
  std::optional<Region> local, remote;
  std::unique_ptr<Engine> engine;  // destroyed first: it reads the memory of the members above
};

TEST_F(EngineTest, WritesFromOneDeviceToAnother) {
  Connect();
  local->As<uint64_t>() = 0x1234;
  a->Post(Write());
  a->Ring();
  EXPECT_EQ(Wait(a->send_cq).opcode, CqeOpcode::kRequester);
  EXPECT_EQ(remote->As<uint64_t>(), 0x1234u);
}

TEST_F(EngineTest, IgnoresARecordWithoutADoorbell) {
  Connect();
  a->Post(Write());
  WaitForTwoScans();
  EXPECT_FALSE(a->send_cq.Poll());
  a->Ring();
  EXPECT_EQ(Wait(a->send_cq).opcode, CqeOpcode::kRequester);
}

TEST_F(EngineTest, ServesBothQueuePairsWhenOneDoorbellOverwritesTheOther) {
  Connect();
  std::optional<QpUser> mate;
  {
    const auto lock = engine->Pause();
    mate.emplace(*engine->devices()[0], engine->devices()[0]->AllocPd(), QpOptions{.uar = a->uar});
    mate->Connect(*mate);
    mate->Post(WqeBuilder(WqeOpcode::kNop));
    mate->Ring();
    a->Post(Write());
    a->Ring();  // same register, before the engine reads it
  }
  EXPECT_EQ(Wait(a->send_cq).opcode, CqeOpcode::kRequester);
  EXPECT_EQ(Wait(mate->send_cq).opcode, CqeOpcode::kRequester);
  engine.reset();
}

TEST_F(EngineTest, DoesNotFailAnUnconnectedQueuePairThatSharesItsPage) {
  Connect();
  std::optional<QpUser> mate;
  {
    const auto lock = engine->Pause();
    mate.emplace(*engine->devices()[0], engine->devices()[0]->AllocPd(), QpOptions{.uar = a->uar});
    mate->ConnectToRtr(*mate);
    mate->Post(WqeBuilder(WqeOpcode::kNop));
  }
  a->Post(Write());
  a->Ring();
  Wait(a->send_cq);
  {
    const auto lock = engine->Pause();
    EXPECT_EQ(mate->qp().state, QpState::kRtr);
    mate->ConnectToRts();
  }
  mate->Ring();
  EXPECT_EQ(Wait(mate->send_cq).opcode, CqeOpcode::kRequester);
  engine.reset();
}

TEST_F(EngineTest, GivesUpRetriesInTime) {
  const auto start = steady_clock::now();
  {
    const auto lock = engine->Pause();
    a->Connect(*b, {.ack_timeout = 12, .retry_count = 2});  // b stays in RESET
  }
  a->Post(Write());
  a->Ring();
  EXPECT_EQ(Wait(a->send_cq).syndrome, Syndrome::kTransportRetryExceeded);
  EXPECT_GE(steady_clock::now() - start, 3 * std::chrono::microseconds(16777));
}

TEST_F(EngineTest, FlushesWqesPostedAfterAnError) {
  Connect();
  b->PostReceive({});
  a->Post(WqeBuilder(WqeOpcode::kRdmaWrite).Remote(0, 0).Data(local->Address(), 8, local->key));
  a->Post(Write());
  a->Ring();
  EXPECT_EQ(Wait(a->send_cq).syndrome, Syndrome::kRemoteAccess);
  EXPECT_EQ(Wait(a->send_cq).syndrome, Syndrome::kFlushed);
  EXPECT_EQ(Wait(b->receive_cq).syndrome, Syndrome::kFlushed);
  a->Post(Write());
  a->Ring();
  EXPECT_EQ(Wait(a->send_cq).syndrome, Syndrome::kFlushed);
  b->PostReceive({});
  EXPECT_EQ(Wait(b->receive_cq).syndrome, Syndrome::kFlushed) << "receives have no doorbell";
}

TEST_F(EngineTest, DestroysABusyQueuePair) {
  Connect();
  for (int i = 0; i < 8; ++i) a->Post(Write());
  a->Ring();
  {
    const auto lock = engine->Pause();
    engine->devices()[0]->DestroyQp(a->qpn);
    engine->devices()[0]->DestroyCq(a->send_cqn);
    EXPECT_EQ(engine->devices()[0]->Counts().qps, 0u);
  }
  WaitForTwoScans();
}

TEST_F(EngineTest, ServesManyWritesFromAThreadOfItsOwn) {
  Connect();
  std::thread program([&] {
    for (uint64_t i = 1; i <= 2000; ++i) {
      local->As<uint64_t>() = i;
      a->Post(Write());
      a->Ring();
      ASSERT_EQ(Wait(a->send_cq).opcode, CqeOpcode::kRequester);
      ASSERT_EQ(remote->As<uint64_t>(), i);
    }
  });
  program.join();
}

/// Has a number of frames to send, and sends one at a time.
class CrowdedNetwork : public Network {
 public:
  explicit CrowdedNetwork(std::atomic<int>& frames) : frames_(frames) {}

  void OnTransition(QueuePair&) override {}
  bool Run(QueuePair&, uint64_t) override { return false; }
  bool Poll(uint64_t) override {
    if (frames_ != 0) --frames_;
    return false;
  }
  uint64_t NextNs() const override { return UINT64_MAX; }
  bool HasUnsent() const override { return frames_ != 0; }
  bool Listens() const override { return false; }
  void Wait(uint64_t) override {}

 private:
  std::atomic<int>& frames_;
};

TEST(EngineStop, SendsPendingFrames) {
  std::atomic<int> frames = 0;
  Engine engine({}, std::make_unique<CrowdedNetwork>(frames));
  frames = 100;
  engine.Stop();
  EXPECT_EQ(frames, 0);
}

/// A network whose first pass takes long, as if the engine had no processor meanwhile.
class StallingNetwork : public Network {
 public:
  explicit StallingNetwork(std::atomic<uint64_t>& stalled_ns) : stalled_ns_(stalled_ns) {}
  void OnTransition(QueuePair&) override {}
  bool Run(QueuePair&, uint64_t) override { return false; }
  bool Poll(uint64_t) override {
    if (!std::exchange(stalled_, true)) std::this_thread::sleep_for(milliseconds(60));
    return false;
  }
  uint64_t NextNs() const override { return UINT64_MAX; }
  void OnStall(uint64_t ns) override { stalled_ns_ += ns; }
  bool Listens() const override { return false; }
  void Wait(uint64_t) override {}

 private:
  bool stalled_ = false;
  std::atomic<uint64_t>& stalled_ns_;
};

TEST(EngineRun, TakesTimeInWhichItCouldNotRunOffTheTimers) {
  std::atomic<uint64_t> stalled_ns = 0;
  Engine engine({}, std::make_unique<StallingNetwork>(stalled_ns));
  const auto end = steady_clock::now() + kDeadline;
  while (stalled_ns < 50'000'000 && steady_clock::now() < end) std::this_thread::yield();
  EXPECT_GE(stalled_ns, 50'000'000u);
  engine.Stop();
}

TEST(EngineStop, GivesUpOnAPeerThatTakesNothing) {
  std::atomic<int> frames = 0;
  Engine engine({}, std::make_unique<CrowdedNetwork>(frames));
  frames = INT_MAX;
  engine.Stop();
  EXPECT_GT(frames, 0);
}

}  // namespace
}  // namespace softhca
