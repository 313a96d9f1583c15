#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "nic_thread.hpp"
#include "together.hpp"
#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using mlx5::WqeOpcode;
using testing::ElementsAre;

template <class Sharing>
class BatchTest : public testing::Test {
 protected:
  void StepAll() {
    while (nic_.Step()) {
    }
    EXPECT_EQ(nic_.violation(), "");
  }
  auto WriteOne() { return Write(Remote(to_), Local(from_)); }

  uint64_t from_ = 42, to_ = 0;
  TestQueue memory_{8};
  TestNic nic_{memory_};
  SendQueue<Cpu, Sharing> queue_{ViewFor<Sharing>(memory_)};
};

using Sharings = testing::Types<Exclusive, Shared, Contended>;
TYPED_TEST_SUITE(BatchTest, Sharings);

TYPED_TEST(BatchTest, PublishesAllPostsByOneDoorbell) {
  auto batch = this->queue_.Begin(4);
  for (uint32_t i = 0; i < 4; ++i) {
    const Posted added = batch.Add(this->WriteOne(), i == 3 ? mlx5::kCqeAlways : mlx5::kCqeOnError);
    ASSERT_TRUE(added.status.ok());
    EXPECT_EQ(added.ticket.index, i);
    EXPECT_FALSE(this->nic_.Step()) << "not published";
  }
  const Posted posted = batch.Submit();
  ASSERT_TRUE(posted.status.ok());
  EXPECT_EQ(posted.ticket.index, 3U);
  this->StepAll();
  EXPECT_EQ(this->nic_.doorbells(), 1U);
  EXPECT_EQ(this->nic_.next(), 4U);
  EXPECT_TRUE(this->queue_.Test(posted.ticket).ok());
}

TYPED_TEST(BatchTest, ResumesWhereItWasSuspended) {
  BatchState state;
  {
    auto batch = this->queue_.Begin(3);
    EXPECT_TRUE(batch.Add(this->WriteOne()).status.ok());
    state = batch.Suspend();
  }
  EXPECT_FALSE(this->nic_.Step()) << "a suspended batch publishes nothing";
  for (uint32_t i = 1; i < 3; ++i) {
    auto batch = this->queue_.Resume(state);
    EXPECT_EQ(batch.Add(this->WriteOne()).ticket.index, i);
    state = batch.Suspend();
  }
  auto batch = this->queue_.Resume(state);
  EXPECT_EQ(batch.Add(this->WriteOne()).status.request_error, RequestError::kTooManySlots);
  EXPECT_EQ(batch.Submit().ticket.index, 2U);
  this->StepAll();
  EXPECT_EQ(this->nic_.doorbells(), 1U);
  EXPECT_THAT(this->nic_.opcodes(),
              ElementsAre(WqeOpcode::kRdmaWrite, WqeOpcode::kRdmaWrite, WqeOpcode::kRdmaWrite));
}

TYPED_TEST(BatchTest, FillsUnusedSlotsWithNopsThatComplete) {
  auto batch = this->queue_.Begin(3);
  EXPECT_TRUE(batch.Add(this->WriteOne()).status.ok());
  const Posted posted = batch.Submit();
  EXPECT_EQ(posted.ticket.index, 2U);
  this->StepAll();
  EXPECT_THAT(this->nic_.opcodes(), ElementsAre(WqeOpcode::kRdmaWrite, WqeOpcode::kNop, WqeOpcode::kNop));
  EXPECT_TRUE(this->queue_.Test(posted.ticket).ok());
  EXPECT_TRUE(this->queue_.Post(this->WriteOne()).status.ok()) << "the queue continues behind the batch";
  this->StepAll();
}

TYPED_TEST(BatchTest, PostsNopsWhenEmpty) {
  const Posted posted = this->queue_.Begin(2).Submit();
  this->StepAll();
  EXPECT_THAT(this->nic_.opcodes(), ElementsAre(WqeOpcode::kNop, WqeOpcode::kNop));
  EXPECT_TRUE(this->queue_.Test(posted.ticket).ok());
}

TYPED_TEST(BatchTest, PostsNopsWhenAbandoned) {
  {
    auto batch = this->queue_.Begin(3);
    ASSERT_TRUE(batch.Add(this->WriteOne()).status.ok());
  }
  const Posted behind = this->queue_.Post(Nop());
  ASSERT_TRUE(behind.status.ok());
  EXPECT_EQ(behind.ticket.index, 3U);
  this->StepAll();
  EXPECT_THAT(this->nic_.opcodes(),
              ElementsAre(WqeOpcode::kNop, WqeOpcode::kNop, WqeOpcode::kNop, WqeOpcode::kNop));
  EXPECT_EQ(this->to_, 0U) << "nothing is written";
  EXPECT_TRUE(this->queue_.Test(behind.ticket).ok());
}

TYPED_TEST(BatchTest, IgnoresASecondSubmit) {
  auto batch = this->queue_.Begin(1);
  EXPECT_TRUE(batch.Add(this->WriteOne()).status.ok());
  ASSERT_TRUE(batch.Submit().status.ok());
  ASSERT_TRUE(this->queue_.Post(Nop()).status.ok());
  const uint64_t doorbell = this->memory_.doorbell, end = EndFor<TypeParam>(this->memory_);
  const Posted again = batch.Submit();
  EXPECT_TRUE(again.status.ok());
  EXPECT_EQ(again.ticket.index, 0U);
  EXPECT_EQ(this->memory_.doorbell, doorbell);
  EXPECT_EQ(EndFor<TypeParam>(this->memory_), end);
  this->StepAll();
  EXPECT_EQ(this->nic_.next(), 2U);
}

TYPED_TEST(BatchTest, TakesOperationsOfSeveralSlots) {
  this->memory_.max_message = 8;
  SendQueue<Cpu, TypeParam> queue(ViewFor<TypeParam>(this->memory_));
  uint64_t from[3] = {1, 2, 3}, to[3] = {}, word = 9;
  auto batch = queue.Begin(6);
  EXPECT_EQ(batch.Add(Write(Remote(to), Local(from))).ticket.index, 2U);
  EXPECT_EQ(batch.Add(Swap(Remote(word), uint64_t{77})).ticket.index, 5U);
  EXPECT_TRUE(batch.Submit().status.ok());
  this->StepAll();
  EXPECT_THAT(to, ElementsAre(1, 2, 3));
  EXPECT_EQ(word, 77U);
}

TYPED_TEST(BatchTest, RefusesOperationsThatDoNotFitAndPostsTheRest) {
  auto batch = this->queue_.Begin(2);
  EXPECT_TRUE(batch.Add(this->WriteOne()).status.ok());
  uint64_t word = 0;
  const Status wide = batch.Add(Swap(Remote(word), uint64_t{77})).status;
  EXPECT_EQ(wide.code, Code::kInvalid);
  EXPECT_EQ(wide.request_error, RequestError::kTooManySlots);
  const Status longer = batch.Add(Send({0x1000, uint64_t{1} << 31, kTestKey})).status;
  EXPECT_EQ(longer.request_error, RequestError::kMessageTooLong);
  EXPECT_TRUE(batch.Add(this->WriteOne()).status.ok());
  EXPECT_EQ(batch.Add(Nop()).status.request_error, RequestError::kTooManySlots) << "all slots are used";
  EXPECT_TRUE(batch.Submit().status.ok());
  this->StepAll();
  EXPECT_EQ(this->nic_.next(), 2U);
  EXPECT_EQ(word, 0U);
}

TYPED_TEST(BatchTest, RefusesImpossibleSizes) {
  for (const uint32_t slots : {0U, 9U, ~0U}) {
    auto batch = this->queue_.Begin(slots);
    EXPECT_EQ(batch.status().code, Code::kInvalid) << slots;
    EXPECT_EQ(batch.status().request_error, RequestError::kTooManySlots);
    EXPECT_EQ(batch.Add(this->WriteOne()).status.code, Code::kInvalid);
    EXPECT_EQ(batch.Submit().status.code, Code::kInvalid);
  }
  EXPECT_FALSE(this->nic_.Step());
  EXPECT_TRUE(this->queue_.Begin(8).Submit().status.ok()) << "a batch may fill the queue";
  this->StepAll();
}

TYPED_TEST(BatchTest, IsRefusedWhenTheQueueIsFull) {
  ASSERT_TRUE(this->queue_.Begin(6).Submit().status.ok());
  EXPECT_EQ(this->queue_.Begin(3).status().code, Code::kFull);
  EXPECT_EQ(this->queue_.Begin(3, InAMillisecond()).Submit().status.code, Code::kTimeout);
  EXPECT_TRUE(this->queue_.Begin(2).Submit().status.ok()) << "the refused batches reserved nothing";
  this->StepAll();
  EXPECT_EQ(this->nic_.next(), 8U);
}

TYPED_TEST(BatchTest, RefusesInvalidPostsOutsideABatch) {
  const auto error_of = [&](const auto& operation) {
    const Posted posted = this->queue_.Post(operation);
    EXPECT_EQ(posted.status.code, Code::kInvalid);
    return posted.status.request_error;
  };
  const LocalMemory huge{0x1000, (uint64_t{8} << 30) + 1, kTestKey};
  EXPECT_EQ(error_of(Write(Remote(this->to_), huge)), RequestError::kTooManySlots);
  EXPECT_EQ(error_of(Send(huge)), RequestError::kMessageTooLong);
  EXPECT_EQ(error_of(Write(Remote(this->to_), huge, Local(this->from_))), RequestError::kMessageTooLong);
  EXPECT_EQ(this->memory_.dbrec, 0U);
  EXPECT_TRUE(this->queue_.Post(this->WriteOne()).status.ok());
  this->StepAll();
}

TEST(SharedBatches, KeepThePostsOfManyThreadsApart) {
  constexpr uint32_t kThreads = 4, kWrites = 600;
  TestQueue memory(16, 0U - 900);
  TestNic nic(memory, 0U - 900);
  NicThread thread(nic);
  std::vector<std::vector<uint32_t>> from(kThreads, std::vector<uint32_t>(kWrites)), to = from;
  Together(kThreads, [&](uint32_t me) {
    SendQueue<Cpu, Shared> queue(memory.View());
    for (uint32_t i = 0, size = me; i < kWrites;) {
      size = size % 8 + 1;
      auto batch = queue.Begin(size, Soon());
      ASSERT_TRUE(batch.status().ok());
      for (const uint32_t end = std::min(i + size, kWrites); i < end; ++i) {
        from[me][i] = me * kWrites + i + 1;
        const uint32_t flags = i % 3 == 0 ? mlx5::kCqeOnError : mlx5::kCqeAlways;
        ASSERT_TRUE(batch.Add(Write(Remote(to[me][i]), Local(from[me][i])), flags).status.ok());
      }
      ASSERT_TRUE(batch.Submit().status.ok());
    }
    ASSERT_TRUE(queue.Flush(Soon()).ok());
    EXPECT_EQ(from[me], to[me]);
  });
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
}

}  // namespace
}  // namespace warpverbs::device
