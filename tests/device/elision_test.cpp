// Who rings for WQEs whose successors are already there.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "nic_thread.hpp"
#include "together.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using Queue = SendQueue<Cpu, Shared>;

/// A batch of one slot, where it stays: batches are not copied.
struct OneSlot {
  explicit OneSlot(Queue& queue) : batch(queue.Begin(1)) {}
  ~OneSlot() noexcept {}  // a fixture's destructor may not throw, as a batch's may
  Queue::Batch batch;
};

/// Three posters that reserve a slot each, one after the other, and publish in the order that a test wants.
class Elision : public testing::TestWithParam<FetchUpTo> {
 protected:
  void Begin(uint32_t depth, uint32_t start) {
    memory_.emplace(depth, start);
    nic_.emplace(*memory_, start, GetParam());
    for (auto& queue : queues_) queue.emplace(memory_->View());
    for (uint32_t i = 0; i < 3; ++i) batches_[i].emplace(*queues_[i]);
  }

  Posted Submit(uint32_t poster) { return batches_[poster]->batch.Submit(); }

  /// When the second reserved it was not yet its turn, so it looks, and finds that the third has reserved.
  Posted SubmitFirstAndSecond() {
    EXPECT_TRUE(Submit(0).status.ok());
    StepAll();
    const Posted second = Submit(1);
    EXPECT_TRUE(second.status.ok());
    StepAll();
    return second;
  }

  void StepAll() {
    while (nic_->Step()) {
    }
    EXPECT_EQ(nic_->violation(), "");
  }

  std::optional<TestQueue> memory_;
  std::optional<TestNic> nic_;
  std::optional<Queue> queues_[3];
  std::optional<OneSlot> batches_[3];
};

INSTANTIATE_TEST_SUITE_P(, Elision, testing::Values(FetchUpTo::kDoorbell, FetchUpTo::kRecord),
                         [](const auto& fetch) {
                           return fetch.param == FetchUpTo::kDoorbell ? "FetchUpToDoorbell"
                                                                      : "FetchUpToRecord";
                         });

TEST_P(Elision, WhoHadToWaitAndHasASuccessorLeavesTheDoorbellToIt) {
  Begin(64, 100);
  const Posted second = SubmitFirstAndSecond();
  EXPECT_EQ(nic_->next(), 101U) << "the first alone is rung for";
  EXPECT_EQ(queues_[1]->Test(second.ticket).code, Code::kPending);
  EXPECT_EQ(memory_->control.tail, uint64_t{103} << 32 | 102) << "the turn has moved on all the same";

  const Posted third = Submit(2);
  StepAll();
  EXPECT_EQ(nic_->next(), 103U);
  EXPECT_EQ(nic_->doorbells(), 2U) << "one for the second and the third";
  EXPECT_TRUE(queues_[1]->Test(second.ticket).ok());
  EXPECT_TRUE(queues_[2]->Test(third.ticket).ok());
}

TEST_P(Elision, EveryQuarterOfTheQueueIsRungFor) {
  Begin(64, 110);  // the second ends the slots [111, 112), at a multiple of 16
  static_cast<void>(SubmitFirstAndSecond());
  EXPECT_EQ(nic_->next(), 112U);
  EXPECT_TRUE(Submit(2).status.ok());
  StepAll();
  EXPECT_EQ(nic_->next(), 113U);
}

TEST_P(Elision, QueueOfFourRingsForEach) {
  Begin(4, 0);
  static_cast<void>(SubmitFirstAndSecond());
  EXPECT_EQ(nic_->next(), 2U);
  EXPECT_TRUE(Submit(2).status.ok());
  StepAll();
}

TEST_P(Elision, WhoSawNoSuccessorRingsThoughOneCameLater) {
  memory_.emplace(64);
  nic_.emplace(*memory_, 0, GetParam());
  for (auto& queue : queues_) queue.emplace(memory_->View());
  batches_[0].emplace(*queues_[0]);
  batches_[1].emplace(*queues_[1]);
  EXPECT_TRUE(Submit(0).status.ok()) << "it has not looked since it reserved";
  StepAll();
  EXPECT_EQ(nic_->next(), 1U);
  EXPECT_TRUE(Submit(1).status.ok());
  StepAll();
  EXPECT_EQ(nic_->next(), 2U);
}

/// Counts the doorbells that it rings.
struct CountingCpu : Cpu {
  static inline std::atomic<uint32_t> doorbells = 0;
  static void StoreReleaseMmio(uint64_t* doorbell, mlx5::Be64 value) {
    ++doorbells;
    Cpu::StoreReleaseMmio(doorbell, value);
  }
};

TEST_P(Elision, NoDoorbellIsLostUnderContention) {
  constexpr uint32_t kThreads = 4, kPosts = 2000, kDepth = 64;
  TestQueue memory(kDepth, 0U - 3000);
  TestNic nic(memory, 0U - 3000, GetParam());
  NicThread thread(nic);
  CountingCpu::doorbells = 0;
  Together(kThreads, [&](uint32_t) {
    SendQueue<CountingCpu, Shared> queue(memory.View());
    uint32_t from = 0, to = 0;
    for (uint32_t i = 0; i < kPosts; ++i) {
      const Posted posted = queue.Post(Write(Remote(to), Local(from)), Soon());
      ASSERT_TRUE(posted.status.ok());
      ASSERT_TRUE(i % 50 != 0 || queue.Wait(posted.ticket, Soon()).ok());
    }
    ASSERT_TRUE(queue.Flush(Soon()).ok()) << "a lost doorbell would leave something undone";
  });
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
  EXPECT_EQ(nic.next(), kThreads * kPosts - 3000);
  EXPECT_GE(CountingCpu::doorbells, kThreads * kPosts / (kDepth / 4)) << "each quarter is rung for";
}

}  // namespace
}  // namespace warpverbs::device
