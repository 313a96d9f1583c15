#include "perf/device/stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "test_nic.hpp"
#include "warpverbs/arch/cpu.hpp"

/// One thread's flow on a queue in ordinary memory, whose NIC executes an entry when the test says so.
namespace warpverbs::perf {
namespace {

using arch::Cpu;

/// Of 8 bytes, over and over.
Flow WordFlow(device::TestQueue& queue, uint64_t& source, uint64_t& target) {
  return {.queue = queue.View(),
          .local = device::Local(source),
          .remote = device::Remote(target),
          .stride = sizeof source,
          .slots = 1};
}

/// What one poster does with one flow, without a time for each message.
StreamJob JobOf(const Flow& flow, uint32_t count, uint32_t tx_depth, uint32_t cq_mod, uint32_t batch,
                uint64_t patience_ns, Span& span, Report& report) {
  return {.flows = &flow,
          .flow_count = 1,
          .count = count,
          .batch = batch,
          .cq_mod = cq_mod,
          .tx_depth = tx_depth,
          .posters = 1,
          .patience_ns = patience_ns,
          .posted_ns = nullptr,
          .completed_ns = nullptr,
          .spans = &span,
          .report = &report};
}

class LoneFlowTest : public testing::Test {
 protected:
  static constexpr uint32_t kBytes = 64, kSlots = 4;

  void Start(uint32_t count, uint32_t tx_depth, uint32_t cq_mod, uint32_t batch) {
    flow_ = {.queue = queue_.View(),
             .local = {reinterpret_cast<uint64_t>(source_.data()), kBytes, device::kTestKey},
             .remote = {reinterpret_cast<uint64_t>(target_.data()), device::kTestKey},
             .stride = kBytes,
             .slots = kSlots};
    posted_ns_.resize(count);
    completed_ns_.resize(count);
    job_ = JobOf(flow_, count, tx_depth, cq_mod, batch, 1'000'000'000, span_, report_);
    job_.posted_ns = posted_ns_.data();
    job_.completed_ns = completed_ns_.data();
    for (size_t i = 0; i < source_.size(); ++i) source_[i] = static_cast<uint8_t>(i * 7 + 1);
    lone_ = std::make_unique<LoneFlow<Cpu, WriteVerb>>(job_, 0);
  }

  /// Whether the entry of an index asks for a completion.
  bool Announces(uint32_t index) const {
    constexpr size_t kFlagsAt = 11;  // of the control segment
    const auto* const wqe = reinterpret_cast<const uint8_t*>(&queue_.ring[index % queue_.ring.size()]);
    return (wqe[kFlagsAt] & mlx5::kCompletionMask) == mlx5::kCqeAlways;
  }

  /// Lets the NIC execute all that is posted, and notes what asked for a completion.
  void Execute() {
    while (true) {
      const uint32_t index = nic_.next();
      if (!nic_.Step()) return;
      if (Announces(index)) announced_.push_back(index);
      most_ = std::max(most_, nic_.rung() - index);
    }
  }

  device::TestQueue queue_{64};
  device::TestNic nic_{queue_};
  std::vector<uint8_t> source_ = std::vector<uint8_t>(kBytes * kSlots), target_ = source_;
  Flow flow_{};
  StreamJob job_{};
  std::vector<uint64_t> posted_ns_, completed_ns_;
  Span span_{};
  Report report_{};
  std::unique_ptr<LoneFlow<Cpu, WriteVerb>> lone_;
  std::vector<uint32_t> announced_;
  uint32_t most_ = 0;
};

TEST_F(LoneFlowTest, AsksForACompletionEveryCqModAndOfTheLast) {
  Start(100, 48, 16, 1);
  while (!lone_->Done()) {
    lone_->Step();
    Execute();
  }
  EXPECT_EQ(announced_, (std::vector<uint32_t>{15, 31, 47, 63, 79, 95, 99}));
  EXPECT_EQ(nic_.violation(), "");
  EXPECT_EQ(nic_.opcodes().size(), 100u);
}

TEST_F(LoneFlowTest, KeepsAsManyUnderWayAsItMayAndNoMore) {
  Start(100, 24, 8, 1);
  while (!lone_->Done()) {
    lone_->Step();
    Execute();
  }
  EXPECT_EQ(most_, 24u);
}

TEST_F(LoneFlowTest, PostsNothingMoreWhileNothingCompletes) {
  Start(100, 10, 10, 1);
  EXPECT_TRUE(lone_->Step());
  const uint64_t doorbell = queue_.doorbell;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(lone_->Step());
  EXPECT_EQ(queue_.doorbell, doorbell);
}

TEST_F(LoneFlowTest, RingsOnceForABatch) {
  Start(30, 8, 8, 8);
  while (!lone_->Done()) {
    lone_->Step();
    Execute();
  }
  EXPECT_EQ(nic_.doorbells(), 4u);  // 8, 8, 8, 6
  EXPECT_EQ(announced_, (std::vector<uint32_t>{7, 15, 23, 29}));
  EXPECT_EQ(nic_.opcodes().size(), 30u);
}

TEST_F(LoneFlowTest, GoesRoundItsPlacesAndFillsThemAll) {
  std::fill(target_.begin(), target_.end(), 0);
  Start(7, 7, 7, 1);
  while (!lone_->Done()) {
    lone_->Step();
    Execute();
  }
  EXPECT_EQ(target_, source_);
}

TEST_F(LoneFlowTest, TimesEachMessageAndTheWhole) {
  Start(20, 5, 5, 1);
  while (!lone_->Done()) {
    lone_->Step();
    Execute();
  }
  lone_->End();
  EXPECT_TRUE(std::is_sorted(posted_ns_.begin(), posted_ns_.end()));
  EXPECT_TRUE(std::is_sorted(completed_ns_.begin(), completed_ns_.end()));
  for (size_t i = 0; i < posted_ns_.size(); ++i) EXPECT_LE(posted_ns_[i], completed_ns_[i]);
  EXPECT_LE(span_.begin_ns, posted_ns_.front());
  EXPECT_EQ(span_.end_ns, completed_ns_.back());
  EXPECT_EQ(report_.abort, 0u);
}

TEST(LoneFlow, EndsWithAnyDepthBatchAndModeration) {
  for (const uint32_t tx_depth : {1u, 2u, 3u, 7u, 8u, 31u}) {
    for (uint32_t batch = 1; batch <= tx_depth; ++batch) {
      for (uint32_t cq_mod = 1; cq_mod + batch <= tx_depth + 1; ++cq_mod) {
        device::TestQueue queue(32);
        device::TestNic nic(queue);
        uint64_t source = 1, target = 0;
        const Flow flow = WordFlow(queue, source, target);
        Span span{};
        Report report{};
        const StreamJob job = JobOf(flow, 67, tx_depth, cq_mod, batch, 1, span, report);
        LoneFlow<Cpu, WriteVerb> lone(job, 0);
        while (lone.Step()) {
          while (nic.Step()) continue;
        }
        ASSERT_TRUE(lone.Done()) << tx_depth << ' ' << batch << ' ' << cq_mod;
        ASSERT_EQ(nic.opcodes().size(), 67u);
      }
    }
  }
}

TEST_F(LoneFlowTest, TellsTheErrorOfAnEntry) {
  nic_.FailAt(3, mlx5::Syndrome::kRemoteAccess);
  Start(20, 8, 4, 1);
  for (int turn = 0; turn < 100 && !lone_->Done(); ++turn) {
    lone_->Step();
    Execute();
  }
  ASSERT_TRUE(lone_->Done());
  lone_->End();
  EXPECT_EQ(report_.abort, 1u);
  EXPECT_EQ(report_.status.code, device::Code::kError);
}

TEST_F(LoneFlowTest, GivesUpWhereNothingComes) {
  Start(20, 8, 4, 1);
  RunFlows<Cpu>(lone_.get(), 1, 1'000'000, report_);
  EXPECT_EQ(report_.status.code, device::Code::kTimeout);
}

/// A flow with something to do whenever it is looked at.
class BusyFlow {
 public:
  bool Done() const { return steps_ == kMost || !status_.ok(); }
  bool Step() {
    ++steps_;
    return true;
  }
  void Fail(device::Code code) { status_ = {.code = code}; }
  const device::Status& status() const { return status_; }
  void End() {}

 private:
  static constexpr int kMost = 1'000'000;
  int steps_ = 0;
  device::Status status_;
};

TEST(RunFlows, AreStoppedThoughSomethingAlwaysMoves) {
  BusyFlow flow;
  Report report{};
  report.abort = Report::kStopped;
  RunFlows<Cpu>(&flow, 1, 1, report);
  EXPECT_EQ(flow.status().code, device::Code::kAborted);
}

TEST(StreamTogether, IsStoppedThoughThereIsAlwaysRoom) {
  constexpr uint32_t kMost = 4 * kTurnsBetweenLooks;
  device::TestQueue queue(kMost);
  uint64_t source = 1, target = 0;
  const Flow flow = WordFlow(queue, source, target);
  Span span{};
  Report report{};
  report.abort = Report::kStopped;
  const StreamJob job = JobOf(flow, kMost, kMost, 1, 1, 60'000'000'000, span, report);
  StreamTogether<Cpu, WriteVerb, device::Shared>(job, {0, 0, 0, 1}, device::Thread{});
  device::TestNic nic(queue);
  uint32_t posted = 0;
  while (nic.Step()) ++posted;
  EXPECT_EQ(posted, kTurnsBetweenLooks);
}

}  // namespace
}  // namespace warpverbs::perf
