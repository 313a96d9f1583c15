#include "perf/device/stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "test_nic.hpp"
#include "warpverbs/arch/cpu.hpp"

/// Streams on a queue in ordinary memory. Its NIC executes a WQE when the test steps it.
namespace warpverbs::perf {
namespace {

using arch::Cpu;

/// Returns a flow that writes the same 8 bytes repeatedly.
Flow WordFlow(device::TestQueue& queue, uint64_t& source, uint64_t& target) {
  return {.queue = queue.View(),
          .local = device::Local(source),
          .remote = device::Remote(target),
          .stride = sizeof source,
          .slots = 1};
}

/// Returns the job of one poster and one flow, without times of single messages.
StreamJob JobOf(const Flow& flow, uint32_t count, uint32_t tx_depth, uint32_t cq_mod, uint32_t batch,
                uint64_t timeout_ns, Span& span, LaunchResult& result) {
  return {.flows = &flow,
          .flow_count = 1,
          .count = count,
          .batch = batch,
          .cq_mod = cq_mod,
          .tx_depth = tx_depth,
          .posters = 1,
          .timeout_ns = timeout_ns,
          .posted_ns = nullptr,
          .completed_ns = nullptr,
          .spans = &span,
          .result = &result};
}

class SingleThreadFlowTest : public testing::Test {
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
    job_ = JobOf(flow_, count, tx_depth, cq_mod, batch, 1'000'000'000, span_, result_);
    job_.posted_ns = posted_ns_.data();
    job_.completed_ns = completed_ns_.data();
    for (size_t i = 0; i < source_.size(); ++i) source_[i] = static_cast<uint8_t>(i * 7 + 1);
    runner_ = std::make_unique<SingleThreadFlow<Cpu, WriteVerb>>(job_, 0);
  }

  /// Returns whether a WQE is signaled.
  bool IsSignaled(uint32_t index) const {
    constexpr size_t kFlagsAt = 11;  // offset in the control segment
    const auto* const wqe = reinterpret_cast<const uint8_t*>(&queue_.ring[index % queue_.ring.size()]);
    return (wqe[kFlagsAt] & mlx5::kCompletionMask) == mlx5::kCqeAlways;
  }

  /// Lets the NIC execute all posted WQEs, and records the signaled ones.
  void Execute() {
    while (true) {
      const uint32_t index = nic_.next();
      if (!nic_.Step()) return;
      if (IsSignaled(index)) signaled_.push_back(index);
      max_outstanding_ = std::max(max_outstanding_, nic_.rung() - index);
    }
  }

  device::TestQueue queue_{64};
  device::TestNic nic_{queue_};
  std::vector<uint8_t> source_ = std::vector<uint8_t>(kBytes * kSlots), target_ = source_;
  Flow flow_{};
  StreamJob job_{};
  std::vector<uint64_t> posted_ns_, completed_ns_;
  Span span_{};
  LaunchResult result_{};
  std::unique_ptr<SingleThreadFlow<Cpu, WriteVerb>> runner_;
  std::vector<uint32_t> signaled_;
  uint32_t max_outstanding_ = 0;
};

TEST_F(SingleThreadFlowTest, SignalsEachCqModAndTheLastMessage) {
  Start(100, 48, 16, 1);
  while (!runner_->Done()) {
    runner_->Step();
    Execute();
  }
  EXPECT_EQ(signaled_, (std::vector<uint32_t>{15, 31, 47, 63, 79, 95, 99}));
  EXPECT_EQ(nic_.violation(), "");
  EXPECT_EQ(nic_.opcodes().size(), 100u);
}

TEST_F(SingleThreadFlowTest, KeepsTxDepthMessagesOutstanding) {
  Start(100, 24, 8, 1);
  while (!runner_->Done()) {
    runner_->Step();
    Execute();
  }
  EXPECT_EQ(max_outstanding_, 24u);
}

TEST_F(SingleThreadFlowTest, StopsPostingWhileNothingCompletes) {
  Start(100, 10, 10, 1);
  EXPECT_TRUE(runner_->Step());
  const uint64_t doorbell = queue_.doorbell;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(runner_->Step());
  EXPECT_EQ(queue_.doorbell, doorbell);
}

TEST_F(SingleThreadFlowTest, RingsOncePerBatch) {
  Start(30, 8, 8, 8);
  while (!runner_->Done()) {
    runner_->Step();
    Execute();
  }
  EXPECT_EQ(nic_.doorbells(), 4u);  // 8, 8, 8, 6
  EXPECT_EQ(signaled_, (std::vector<uint32_t>{7, 15, 23, 29}));
  EXPECT_EQ(nic_.opcodes().size(), 30u);
}

TEST_F(SingleThreadFlowTest, UsesAllSlotsInTurn) {
  std::fill(target_.begin(), target_.end(), 0);
  Start(7, 7, 7, 1);
  while (!runner_->Done()) {
    runner_->Step();
    Execute();
  }
  EXPECT_EQ(target_, source_);
}

TEST_F(SingleThreadFlowTest, TimesEachMessageAndTheWholeStream) {
  Start(20, 5, 5, 1);
  while (!runner_->Done()) {
    runner_->Step();
    Execute();
  }
  runner_->End();
  EXPECT_TRUE(std::is_sorted(posted_ns_.begin(), posted_ns_.end()));
  EXPECT_TRUE(std::is_sorted(completed_ns_.begin(), completed_ns_.end()));
  for (size_t i = 0; i < posted_ns_.size(); ++i) EXPECT_LE(posted_ns_[i], completed_ns_[i]);
  EXPECT_LE(span_.begin_ns, posted_ns_.front());
  EXPECT_EQ(span_.end_ns, completed_ns_.back());
  EXPECT_EQ(result_.abort, 0u);
}

TEST(SingleThreadFlow, CompletesWithAnyDepthBatchAndModeration) {
  for (const uint32_t tx_depth : {1u, 2u, 3u, 7u, 8u, 31u}) {
    for (uint32_t batch = 1; batch <= tx_depth; ++batch) {
      for (uint32_t cq_mod = 1; cq_mod + batch <= tx_depth + 1; ++cq_mod) {
        device::TestQueue queue(32);
        device::TestNic nic(queue);
        uint64_t source = 1, target = 0;
        const Flow flow = WordFlow(queue, source, target);
        Span span{};
        LaunchResult result{};
        const StreamJob job = JobOf(flow, 67, tx_depth, cq_mod, batch, 1, span, result);
        SingleThreadFlow<Cpu, WriteVerb> runner(job, 0);
        while (runner.Step()) {
          while (nic.Step()) continue;
        }
        ASSERT_TRUE(runner.Done()) << tx_depth << ' ' << batch << ' ' << cq_mod;
        ASSERT_EQ(nic.opcodes().size(), 67u);
      }
    }
  }
}

TEST_F(SingleThreadFlowTest, ReportsAFailedWqe) {
  nic_.FailAt(3, mlx5::Syndrome::kRemoteAccess);
  Start(20, 8, 4, 1);
  for (int turn = 0; turn < 100 && !runner_->Done(); ++turn) {
    runner_->Step();
    Execute();
  }
  ASSERT_TRUE(runner_->Done());
  runner_->End();
  EXPECT_EQ(result_.abort, 1u);
  EXPECT_EQ(result_.status.code, device::Code::kError);
}

TEST_F(SingleThreadFlowTest, TimesOutWhenNothingCompletes) {
  Start(20, 8, 4, 1);
  RunFlows<Cpu>(runner_.get(), 1, 1'000'000, result_);
  EXPECT_EQ(result_.status.code, device::Code::kTimeout);
}

/// A flow that makes progress in every step.
class BusyFlow {
 public:
  bool Done() const { return steps_ == kMax || !status_.ok(); }
  bool Step() {
    ++steps_;
    return true;
  }
  void Fail(device::Code code) { status_ = {.code = code}; }
  const device::Status& status() const { return status_; }
  void End() {}

 private:
  static constexpr int kMax = 1'000'000;
  int steps_ = 0;
  device::Status status_;
};

TEST(RunFlows, StopsDespiteConstantProgress) {
  BusyFlow flow;
  LaunchResult result{};
  result.abort = LaunchResult::kStopped;
  RunFlows<Cpu>(&flow, 1, 1, result);
  EXPECT_EQ(flow.status().code, device::Code::kAborted);
}

TEST(StreamByGroup, StopsDespiteConstantRoom) {
  constexpr uint32_t kMax = 4 * kStepsBetweenChecks;
  device::TestQueue queue(kMax);
  uint64_t source = 1, target = 0;
  const Flow flow = WordFlow(queue, source, target);
  Span span{};
  LaunchResult result{};
  result.abort = LaunchResult::kStopped;
  const StreamJob job = JobOf(flow, kMax, kMax, 1, 1, 60'000'000'000, span, result);
  StreamByGroup<Cpu, WriteVerb, device::Shared>(job, {0, 0, 0, 1}, device::Thread{});
  device::TestNic nic(queue);
  uint32_t posted = 0;
  while (nic.Step()) ++posted;
  EXPECT_EQ(posted, kStepsBetweenChecks);
}

}  // namespace
}  // namespace warpverbs::perf
