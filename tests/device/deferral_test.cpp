// Deferral: a poster leaves its doorbell to a successor that has reserved already.
#include <gtest/gtest.h>

#include <atomic>

#include "nic_thread.hpp"
#include "three_posters.hpp"
#include "together.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
class Deferral : public ThreePosters<Shared> {
 protected:
  /// The second was not next to publish when it reserved, so it reloads the word and sees that the third has
  /// reserved.
  Posted SubmitFirstAndSecond() {
    EXPECT_TRUE(Submit(0).status.ok());
    StepAll();
    const Posted second = Submit(1);
    EXPECT_TRUE(second.status.ok());
    StepAll();
    return second;
  }
};

INSTANTIATE_TEST_SUITE_P(, Deferral, testing::Values(FetchUpTo::kDoorbell, FetchUpTo::kRecord), NameOfFetch);

TEST_P(Deferral, LeavesTheDoorbellToASuccessorAfterAWait) {
  Begin(64, 100);
  const Posted second = SubmitFirstAndSecond();
  EXPECT_EQ(nic_->next(), 101U) << "the doorbell covers only the first";
  EXPECT_EQ(queues_[1]->Test(second.ticket).code, Code::kPending);
  EXPECT_EQ(memory_->control.tail, uint64_t{103} << 32 | 102) << "the second is published without a doorbell";

  const Posted third = Submit(2);
  StepAll();
  EXPECT_EQ(nic_->next(), 103U);
  EXPECT_EQ(nic_->doorbells(), 2U) << "one doorbell for the second and the third";
  EXPECT_TRUE(queues_[1]->Test(second.ticket).ok());
  EXPECT_TRUE(queues_[2]->Test(third.ticket).ok());
}

TEST_P(Deferral, RingsForEachQuarterOfTheQueue) {
  Begin(64, 110);  // the second's slots [111, 112) end at a multiple of 16
  static_cast<void>(SubmitFirstAndSecond());
  EXPECT_EQ(nic_->next(), 112U);
  EXPECT_TRUE(Submit(2).status.ok());
  StepAll();
  EXPECT_EQ(nic_->next(), 113U);
}

TEST_P(Deferral, RingsForEachWqeWhenTheQueueHasFourSlots) {
  Begin(4, 0);
  static_cast<void>(SubmitFirstAndSecond());
  EXPECT_EQ(nic_->next(), 2U);
  EXPECT_TRUE(Submit(2).status.ok());
  StepAll();
}

TEST_P(Deferral, RingsWhenNoSuccessorWasSeen) {
  Open(64, 0);
  batches_[0].emplace(*queues_[0]);
  batches_[1].emplace(*queues_[1]);
  EXPECT_TRUE(Submit(0).status.ok()) << "it has not reloaded the word since it reserved";
  StepAll();
  EXPECT_EQ(nic_->next(), 1U);
  EXPECT_TRUE(Submit(1).status.ok());
  StepAll();
  EXPECT_EQ(nic_->next(), 2U);
}

/// A processor that counts its doorbells.
struct CountingCpu : Cpu {
  static inline std::atomic<uint32_t> doorbells = 0;
  static void StoreReleaseMmio(uint64_t* doorbell, mlx5::Be64 value, arch::Mmio mapping) {
    ++doorbells;
    Cpu::StoreReleaseMmio(doorbell, value, mapping);
  }
};

TEST_P(Deferral, LosesNoDoorbellUnderContention) {
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
    ASSERT_TRUE(queue.Flush(Soon()).ok()) << "a lost doorbell leaves WQEs incomplete";
  });
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
  EXPECT_EQ(nic.next(), kThreads * kPosts - 3000);
  EXPECT_GE(CountingCpu::doorbells, kThreads * kPosts / (kDepth / 4)) << "a doorbell for each quarter";
}

}  // namespace
}  // namespace warpverbs::device
