#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "gpuio/ring/consumer.hpp"
#include "gpuio/ring/producer.hpp"
#include "gpuio/ring/shared_semaphore.hpp"
#include "owned_ring.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

using std::chrono::milliseconds;
using Clock = RingConsumer::Clock;

constexpr int kEntries = 8;

struct Ring {
  explicit Ring(const RingConfig& config = {}, int entries = kEntries)
      : owned(entries), producer(owned.memory()), consumer(owned.memory(), config) {}

  int Prepare(uint64_t userdata = 0) { return producer.Prepare({.bytes = 1, .userdata = userdata}); }
  size_t TakeSize(Clock::time_point now = {}) { return consumer.Take(now).size(); }
  std::vector<hf3fs_cqe> Completions(size_t room = kEntries) {
    std::vector<hf3fs_cqe> cqes(room);
    cqes.resize(producer.Take(cqes));
    return cqes;
  }

  OwnedRing owned;
  RingProducer producer;
  RingConsumer consumer;
};

TEST(RingLayout, HasTheSizesOfThe3fsLayout) {
  EXPECT_EQ(RingBytes(64), 10384u);
  EXPECT_EQ(RingBytes(0), 0u);
  EXPECT_EQ(RingBytes(-1), 0u);
  EXPECT_EQ(RingBytes(INT_MAX), 0u);
  for (const int entries : {1, 2, 63, 64, 1000}) EXPECT_EQ(RingEntries(RingBytes(entries)), entries);
  EXPECT_EQ(RingEntries(0), 0);
  EXPECT_EQ(RingEntries(RingBytes(1) - 1), 0);
  EXPECT_EQ(RingEntries(SIZE_MAX), 0);
}

TEST(RingProducer, CarriesARequestToTheConsumerAndItsCompletionBack) {
  Ring ring;
  const IoArgs args{
      .buffer = {1, 2, 3}, .buffer_offset = 4, .file = 5, .file_offset = 6, .bytes = 7, .userdata = 8};
  const int slot = ring.producer.Prepare(args);
  ASSERT_GE(slot, 0);
  const std::vector<TakenIo> taken = ring.consumer.Take({});
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].slot, slot);
  EXPECT_EQ(taken[0].args, args);
  EXPECT_THAT(ring.Completions(), testing::IsEmpty());
  ring.consumer.Complete(slot, -ENOENT);
  const std::vector<hf3fs_cqe> cqes = ring.Completions();
  ASSERT_EQ(cqes.size(), 1u);
  EXPECT_EQ(cqes[0].index, slot);
  EXPECT_EQ(cqes[0].result, -ENOENT);
  EXPECT_EQ(cqes[0].userdata, reinterpret_cast<void*>(8));
}

TEST(RingProducer, IsFullWithAsManyRequestsAsEntries) {
  Ring ring;
  std::set<int> slots;
  for (int i = 0; i < kEntries; ++i) slots.insert(ring.Prepare());
  EXPECT_EQ(slots.size(), static_cast<size_t>(kEntries));
  EXPECT_EQ(ring.Prepare(), -EAGAIN);
  EXPECT_EQ(ring.TakeSize(), static_cast<size_t>(kEntries));
  EXPECT_EQ(ring.Prepare(), -EAGAIN) << "a slot is free only once its completion was taken";
  ring.consumer.Complete(*slots.begin(), 1);
  EXPECT_EQ(ring.Prepare(), -EAGAIN);
  EXPECT_EQ(ring.Completions().size(), 1u);
  EXPECT_EQ(ring.Prepare(), *slots.begin());
}

TEST(RingProducer, WrapsManyTimes) {
  Ring ring({}, 3);
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_GE(ring.Prepare(i), 0);
    const std::vector<TakenIo> taken = ring.consumer.Take({});
    ASSERT_EQ(taken.size(), 1u);
    ring.consumer.Complete(taken[0].slot, static_cast<int64_t>(i));
    const std::vector<hf3fs_cqe> cqes = ring.Completions();
    ASSERT_EQ(cqes.size(), 1u);
    EXPECT_EQ(cqes[0].result, static_cast<int64_t>(i));
    EXPECT_EQ(cqes[0].userdata, reinterpret_cast<void*>(i));
  }
}

TEST(RingProducer, DropsCompletionsThatNobodyAskedFor) {
  Ring ring;
  const RingMemory& memory = ring.owned.memory();
  memory.StoreCqe(0, {.index = 3, .result = 1, .userdata = 1});
  memory.StoreCqe(1, {.index = -1, .result = 1, .userdata = 1});
  memory.StoreCqe(2, {.index = INT_MAX, .result = 1, .userdata = 1});
  memory.cqe_head() = 3;
  EXPECT_THAT(ring.Completions(), testing::IsEmpty());
  memory.cqe_head() = INT_MIN;
  EXPECT_THAT(ring.Completions(), testing::IsEmpty());
  EXPECT_GE(ring.Prepare(), 0);
}

TEST(RingProducer, RefusesCountersThatTheOtherSideDamaged) {
  Ring ring;
  ring.owned.memory().sqe_tail() = kEntries + 1;
  EXPECT_EQ(ring.Prepare(), -EIO);
}

TEST(RingProducer, FailsWhatADaemonTookWithIt) {
  Ring ring;
  const int lost = ring.Prepare(1);
  const int completed = ring.Prepare(2);
  ASSERT_EQ(ring.TakeSize(), 2u);
  ring.consumer.Complete(completed, 5);
  const int queued = ring.Prepare(3);
  ring.producer.Fail(EREMOTEIO, /*also_queued=*/false);
  const std::vector<hf3fs_cqe> cqes = ring.Completions();
  ASSERT_EQ(cqes.size(), 2u);
  EXPECT_EQ(cqes[0].index, lost);
  EXPECT_EQ(cqes[0].result, -EREMOTEIO);
  EXPECT_EQ(cqes[0].userdata, reinterpret_cast<void*>(1));
  EXPECT_EQ(cqes[1].index, completed);
  EXPECT_EQ(cqes[1].result, 5);

  RingConsumer next(ring.owned.memory(), {});
  const std::vector<TakenIo> taken = next.Take({});
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].slot, queued);
  next.Complete(queued, 6);
  EXPECT_EQ(ring.Completions().size(), 1u);
}

TEST(RingProducer, FailsWhatIsQueuedIfNoDaemonComes) {
  Ring ring;
  ring.Prepare(1);
  ASSERT_EQ(ring.TakeSize(), 1u);
  ring.Prepare(2);
  ring.producer.Fail(EREMOTEIO, /*also_queued=*/true);
  EXPECT_EQ(ring.Completions().size(), 2u);
  RingConsumer next(ring.owned.memory(), {});
  EXPECT_THAT(next.Take({}), testing::IsEmpty());
  for (int i = 0; i < kEntries; ++i) EXPECT_GE(ring.Prepare(), 0);
}

TEST(RingProducer, ContinuesARingThatIsNotIdle) {
  Ring ring;
  const int completed = ring.Prepare(1);
  ASSERT_EQ(ring.TakeSize(), 1u);
  ring.consumer.Complete(completed, 5);
  const int queued = ring.Prepare(2);
  RingProducer next(ring.owned.memory());
  std::set<int> slots{completed, queued};
  for (int slot; (slot = next.Prepare({.bytes = 1})) >= 0;) EXPECT_TRUE(slots.insert(slot).second) << slot;
  EXPECT_EQ(slots.size(), static_cast<size_t>(kEntries));
  hf3fs_cqe cqe{};
  ASSERT_EQ(next.Take({&cqe, 1}), 1u);
  EXPECT_EQ(cqe.index, completed);
  EXPECT_EQ(cqe.userdata, reinterpret_cast<void*>(1));
}

TEST(RingProducer, ContinuesARingThatHasUsedItsLastSlot) {
  const OwnedRing owned(kEntries);
  owned.memory().StoreCqe(0, {.index = kEntries, .result = 5, .userdata = 1});  // this side never uses it
  owned.memory().cqe_head() = 1;
  RingProducer producer(owned.memory());
  hf3fs_cqe cqe{};
  ASSERT_EQ(producer.Take({&cqe, 1}), 1u);
  EXPECT_EQ(cqe.index, kEntries);
  for (int i = 0; i < kEntries; ++i) EXPECT_GE(producer.Prepare({.bytes = 1}), 0) << i;
}

TEST(RingConsumer, StartsExactBatchesIfTheDepthIsPositive) {
  Ring ring({.io_depth = 3});
  ring.Prepare();
  ring.Prepare();
  EXPECT_EQ(ring.TakeSize(), 0u);
  EXPECT_EQ(ring.consumer.deadline(), std::nullopt);
  for (int i = 0; i < 5; ++i) ring.Prepare();
  EXPECT_EQ(ring.TakeSize(), 3u);
  EXPECT_EQ(ring.TakeSize(), 3u);
  EXPECT_EQ(ring.TakeSize(), 0u) << "one is left";
}

TEST(RingConsumer, StartsExactBatchesOnlyWithRoomForTheirCompletions) {
  Ring ring({.io_depth = 8});
  for (int i = 0; i < kEntries; ++i) ring.Prepare();
  const std::vector<TakenIo> taken = ring.consumer.Take({});
  ASSERT_EQ(taken.size(), 8u);
  for (const TakenIo& io : taken) ring.consumer.Complete(io.slot, 0);
  EXPECT_EQ(ring.Completions(1).size(), 1u);
  EXPECT_GE(ring.Prepare(), 0);
  EXPECT_EQ(ring.TakeSize(), 0u);
  EXPECT_EQ(ring.Completions().size(), 7u);
  for (int i = 0; i < 7; ++i) EXPECT_GE(ring.Prepare(), 0);
  EXPECT_EQ(ring.TakeSize(), 8u);
}

TEST(RingConsumer, StartsAllAtOnceIfTheDepthIsZero) {
  Ring ring;
  EXPECT_EQ(ring.TakeSize(), 0u);
  for (int i = 0; i < 5; ++i) ring.Prepare();
  EXPECT_EQ(ring.TakeSize(), 5u);
}

TEST(RingConsumer, StartsAPartialBatchAfterTheTimeout) {
  Ring ring({.io_depth = -4, .timeout_ms = 10});
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 6; ++i) ring.Prepare();
  EXPECT_EQ(ring.TakeSize(start), 4u) << "a whole batch starts at once";
  EXPECT_EQ(ring.TakeSize(start), 0u);
  ASSERT_EQ(ring.consumer.deadline(), start + milliseconds(10));
  EXPECT_EQ(ring.TakeSize(start + milliseconds(9)), 0u);
  EXPECT_EQ(ring.consumer.deadline(), start + milliseconds(10)) << "looking again must not put it off";
  EXPECT_EQ(ring.TakeSize(start + milliseconds(10)), 2u);
  EXPECT_EQ(ring.consumer.deadline(), std::nullopt);
}

TEST(RingConsumer, ForgetsTheDeadlineOfABatchThatIsTakenBack) {
  Ring ring({.io_depth = -4, .timeout_ms = 10});
  const Clock::time_point start = Clock::now();
  const RingMemory& memory = ring.owned.memory();
  ring.Prepare();
  EXPECT_EQ(ring.TakeSize(start), 0u);
  ASSERT_TRUE(ring.consumer.deadline().has_value());
  memory.sqe_head() = 0;
  EXPECT_EQ(ring.TakeSize(start + milliseconds(10)), 0u);
  EXPECT_EQ(ring.consumer.deadline(), std::nullopt) << "a timer would end again and again";
  memory.sqe_head() = 1;
  EXPECT_EQ(ring.TakeSize(start), 0u);
  memory.cqe_tail() = 1;  // no room for completions
  EXPECT_EQ(ring.TakeSize(start + milliseconds(10)), 0u);
  EXPECT_EQ(ring.consumer.deadline(), std::nullopt);
}

TEST(RingConsumer, StartsBatchesOfUpToItsEntriesIfTheDepthIsLower) {
  Ring ring({.io_depth = INT_MIN, .timeout_ms = 10});
  ring.Prepare();
  EXPECT_EQ(ring.TakeSize(Clock::now()), 0u);
  for (int i = 1; i < kEntries; ++i) ring.Prepare();
  EXPECT_EQ(ring.TakeSize(Clock::now()), static_cast<size_t>(kEntries));
}

TEST(RingConsumer, StartsAPartialBatchAtOnceWithoutTimeout) {
  Ring ring({.io_depth = -4});
  ring.Prepare();
  EXPECT_EQ(ring.TakeSize(), 1u);
}

TEST(RingConsumer, BreaksWhereWordsMakeNoSense) {
  const auto breaks = [](const auto& damage) {
    Ring ring;
    ring.Prepare();
    damage(ring.owned.memory());
    const size_t taken = ring.consumer.Take({}).size();
    return !ring.consumer.fault().empty() && taken == 0;
  };
  EXPECT_TRUE(breaks([](const RingMemory& memory) { memory.sqe_head() = -1; }));
  EXPECT_TRUE(breaks([](const RingMemory& memory) { memory.sqe_head() = kEntries + 1; }));
  EXPECT_TRUE(breaks([](const RingMemory& memory) { memory.cqe_tail() = INT_MAX; }));
  EXPECT_TRUE(breaks([](const RingMemory& memory) { memory.StoreSqe(0, {.index = kEntries + 1}); }));
  EXPECT_TRUE(breaks([](const RingMemory& memory) { memory.StoreSqe(0, {.index = INT_MIN}); }));
}

TEST(RingConsumer, BreaksIfAnIndexIsUnderWayTwice) {
  Ring ring;
  ring.Prepare();
  ring.Prepare();
  ring.owned.memory().StoreSqe(1, ring.owned.memory().LoadSqe(0));
  EXPECT_EQ(ring.TakeSize(), 1u);
  EXPECT_FALSE(ring.consumer.fault().empty());
  EXPECT_EQ(ring.TakeSize(), 0u);
}

TEST(RingConsumer, BreaksInsteadOfOverwritingCompletions) {
  Ring ring({}, 2);
  for (int i = 0; i < 2; ++i) ring.Prepare();
  const std::vector<TakenIo> taken = ring.consumer.Take({});
  ASSERT_EQ(taken.size(), 2u);
  ring.owned.memory().cqe_tail() = 1;  // "so many were taken" that there is no room
  ring.consumer.Complete(taken[0].slot, 0);
  EXPECT_FALSE(ring.consumer.fault().empty());
}

TEST(RingConsumer, RefusesMemoryThatIsDamagedFromTheStart) {
  const OwnedRing owned(kEntries);
  owned.memory().sqe_tail() = 100;
  EXPECT_FALSE(RingConsumer(owned.memory(), {}).fault().empty());
  owned.memory().sqe_tail() = 0;
  EXPECT_FALSE(RingConsumer(owned.memory(), {.io_depth = kEntries + 1}).fault().empty());
  EXPECT_TRUE(RingConsumer(owned.memory(), {.io_depth = -kEntries}).fault().empty());
}

TEST(SharedSemaphore, WorksWithTheLibrarysCalls) {
  sem_t memory;
  ASSERT_EQ(sem_init(&memory, 1, 0), 0);
  const SharedSemaphore semaphore(&memory);
  EXPECT_EQ(semaphore.TakeAll(), 0u);
  semaphore.Post();
  int value = 0;
  sem_getvalue(&memory, &value);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(sem_trywait(&memory), 0);
  sem_post(&memory);
  EXPECT_EQ(semaphore.TakeAll(), 1u);
  std::jthread waiting([&] { EXPECT_EQ(sem_wait(&memory), 0); });
  semaphore.Post();
  waiting.join();
  std::jthread posting([&] { sem_post(&memory); });
  semaphore.WaitFor(std::chrono::minutes(10));
  posting.join();
  EXPECT_EQ(semaphore.TakeAll(), 0u);
  semaphore.WaitFor(milliseconds(1));
}

TEST(SharedSemaphore, TakesAllPostsAtOnce) {
  sem_t memory;
  ASSERT_EQ(sem_init(&memory, 1, 5), 0);
  const SharedSemaphore semaphore(&memory);
  EXPECT_EQ(semaphore.TakeAll(), 5u);
  EXPECT_EQ(semaphore.TakeAll(), 0u);
  EXPECT_NE(sem_trywait(&memory), 0);
}

TEST(SharedSemaphore, SurvivesAnyContents) {
  for (const int pattern : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
    sem_t memory;
    std::memset(&memory, pattern, sizeof memory);
    const SharedSemaphore semaphore(&memory);
    semaphore.Post();
    semaphore.WaitFor(milliseconds(1));
    semaphore.TakeAll();
  }
}

TEST(Ring, CarriesRequestsOfThreeThreads) {
  constexpr uint64_t kRequests = 1000;
  Ring ring;
  std::jthread daemon([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const TakenIo& io : ring.consumer.Take(Clock::now()))
        ring.consumer.Complete(io.slot, static_cast<int64_t>(io.args.userdata * 3));
      std::this_thread::yield();
    }
  });
  std::jthread preparing([&] {
    for (uint64_t i = 1; i <= kRequests;) {
      if (ring.Prepare(i) >= 0) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  uint64_t sum = 0;
  for (uint64_t taken = 0; taken < kRequests;) {
    for (const hf3fs_cqe& cqe : ring.Completions()) {
      const auto userdata = reinterpret_cast<uint64_t>(cqe.userdata);
      ASSERT_EQ(cqe.result, static_cast<int64_t>(userdata * 3));
      sum += userdata;
      ++taken;
    }
    std::this_thread::yield();
  }
  EXPECT_EQ(sum, kRequests * (kRequests + 1) / 2);
  EXPECT_EQ(ring.consumer.fault(), "");
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
