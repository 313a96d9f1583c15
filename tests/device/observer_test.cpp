// What posters count and trace, with exact numbers.
#include "warpverbs/device/detail/observer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "nic_thread.hpp"
#include "together.hpp"
#include "warpverbs/device/list.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;

/// A processor whose pauses take 10 ns of a clock of the test's own, and tell the test of each.
struct ObservedCpu : Cpu {
  static constexpr uint64_t kStart = 1'000'000'000, kPauseNs = 10;
  static inline uint64_t now = kStart;
  static inline uint32_t pauses = 0;
  static inline std::function<void(uint32_t)> on_pause;

  static uint64_t NowNs() { return now; }
  static bool Pause(uint32_t) {
    now += kPauseNs;
    if (on_pause) on_pause(++pauses);
    return false;
  }
};

/// A limit that only a hanging test reaches.
constexpr WaitLimit kLimit{.deadline_ns = ObservedCpu::kStart + 1'000'000'000};

template <class Sharing>
class Counters : public testing::Test {
 protected:
  using Queue = SendQueue<ObservedCpu, Sharing, Thread, Counted>;

  Counters() {
    ObservedCpu::now = ObservedCpu::kStart;
    ObservedCpu::pauses = 0;
    ObservedCpu::on_pause = nullptr;
  }
  ~Counters() override { ObservedCpu::on_pause = nullptr; }

  /// Lets the NIC execute everything at a pause.
  void StepAtPause(uint32_t which) {
    ObservedCpu::on_pause = [this, which](uint32_t pause) {
      if (pause == which) Step();
    };
  }
  void Step() {
    while (nic_.Step()) {
    }
  }
  Posted Put(Queue& queue, const WaitLimit& limit = {}) {
    return queue.Post(Write(Remote(word_), Local(word_)), limit);
  }
  const QueueCounters& counters() const { return memory_.control.counters; }
  const StallCounters& stalls(Stall cause) const { return counters().stalls[static_cast<uint32_t>(cause)]; }
  void ExpectStalls(Stall cause, uint64_t count, uint64_t total_ns, uint64_t longest_ns) const {
    EXPECT_EQ(stalls(cause).count, count);
    EXPECT_EQ(stalls(cause).total_ns, total_ns);
    EXPECT_EQ(stalls(cause).longest_ns, longest_ns);
  }

  static constexpr bool kContends = std::is_same_v<Sharing, Contended>;
  TestQueue memory_{4};
  TestNic nic_{memory_};
  uint64_t word_ = 0;
};

using Sharings = testing::Types<Exclusive, Shared, RelaxedShared, Contended>;
TYPED_TEST_SUITE(Counters, Sharings);

TYPED_TEST(Counters, CountPostsBatchesAndListsWithTheirSlots) {
  {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(this->memory_));
    EXPECT_TRUE(this->Put(queue).status.ok());
    {
      auto batch = queue.Begin(2);
      EXPECT_TRUE(batch.Add(Write(Remote(this->word_), Local(this->word_))).status.ok());
      EXPECT_TRUE(batch.Submit().status.ok());
    }
    EXPECT_TRUE(queue.PostList(nullptr, 0).status.ok());
    const QueueCounters none{};
    EXPECT_EQ(std::memcmp(&none, &this->counters(), sizeof none), 0) << "a post changes no word of memory";
  }
  EXPECT_EQ(this->counters().posts, 3U);
  EXPECT_EQ(this->counters().wqebbs, 4U);
  EXPECT_EQ(this->counters().doorbells, 3U);
  EXPECT_EQ(this->counters().elided, 0U);
  if (!this->kContends) {
    EXPECT_EQ(this->counters().polls, 1U) << "the first post looks for free slots";
  }
  for (const Stall cause : {Stall::kFull, Stall::kTurn, Stall::kCompletion})
    this->ExpectStalls(cause, 0, 0, 0);
}

TYPED_TEST(Counters, AreAddedOnceWhenAQueueMoves) {
  {
    typename TestFixture::Queue first(ViewFor<TypeParam>(this->memory_));
    EXPECT_TRUE(this->Put(first).status.ok());
    typename TestFixture::Queue second(std::move(first));
    EXPECT_TRUE(this->Put(second).status.ok());
  }
  EXPECT_EQ(this->counters().posts, 2U);
}

TYPED_TEST(Counters, AreAddedAfter1024Posts) {
  typename TestFixture::Queue queue(ViewFor<TypeParam>(this->memory_));
  for (uint32_t i = 0; i < 1023; ++i) {
    ASSERT_TRUE(this->Put(queue).status.ok());
    this->Step();
  }
  EXPECT_EQ(this->counters().posts, 0U);
  ASSERT_TRUE(this->Put(queue).status.ok());
  EXPECT_EQ(this->counters().posts, 1024U);
}

TYPED_TEST(Counters, MeasureAWaitForFreeSlots) {
  {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(this->memory_));
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(this->Put(queue).status.ok());
    this->StepAtPause(3);
    EXPECT_TRUE(this->Put(queue, kLimit).status.ok());
  }
  this->ExpectStalls(Stall::kFull, 1, 30, 30);
  EXPECT_EQ(this->counters().posts, 5U);
  const uint64_t before = this->kContends ? 4 : 1;  // of the first post; or of each, as a quarter is one slot
  EXPECT_GE(this->counters().polls, before + 4) << "and one before each pause and after the last";
  EXPECT_LE(this->counters().polls, before + 4 + 2) << "a contended poster looks again at the gate";
}

TYPED_TEST(Counters, CountAPostThatIsRefusedAsAStallWithoutTime) {
  {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(this->memory_));
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(this->Put(queue).status.ok());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(this->Put(queue).status.code, Code::kFull);
  }
  this->ExpectStalls(Stall::kFull, 3, 0, 0);
  EXPECT_EQ(this->counters().posts, 4U);
}

TYPED_TEST(Counters, MeasureTheLongestOfSeveralWaitsForCompletions) {
  {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(this->memory_));
    for (const uint32_t pauses : {2, 7, 3}) {
      const Posted posted = this->Put(queue);
      ObservedCpu::pauses = 0;
      this->StepAtPause(pauses);
      ASSERT_TRUE(queue.Wait(posted.ticket, kLimit).ok());
    }
  }
  this->ExpectStalls(Stall::kCompletion, 3, 120, 70);
  this->ExpectStalls(Stall::kFull, 0, 0, 0);
  EXPECT_EQ(this->counters().polls, (this->kContends ? 2U : 1U) + 3U + 8U + 4U);
}

TYPED_TEST(Counters, CountNoStallForATestOrAWaitThatEndsAtOnce) {
  {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(this->memory_));
    const Posted posted = this->Put(queue);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(queue.Test(posted.ticket).code, Code::kPending);
    this->Step();
    EXPECT_TRUE(queue.Wait(posted.ticket, kLimit).ok());
  }
  this->ExpectStalls(Stall::kCompletion, 0, 0, 0);
  EXPECT_EQ(this->counters().polls, 1U + 5U + 1U);
}

TYPED_TEST(Counters, ShowALongWaitBeforeItEnds) {
  std::optional<typename TestFixture::Queue> queue(std::in_place, ViewFor<TypeParam>(this->memory_));
  const Posted posted = this->Put(*queue);
  uint64_t seen_ns = 0;
  ObservedCpu::on_pause = [&](uint32_t pause) {
    ObservedCpu::now += 100'000;
    if (pause == 200) {
      EXPECT_EQ(this->stalls(Stall::kCompletion).count, 1U);
      seen_ns = this->stalls(Stall::kCompletion).longest_ns;
      this->Step();
    }
  };
  ASSERT_TRUE(queue->Wait(posted.ticket, kLimit).ok());
  queue.reset();
  const uint64_t pause_ns = 100'000 + ObservedCpu::kPauseNs;
  EXPECT_EQ(seen_ns, 192 * pause_ns) << "the clock is read in every 64th round";
  this->ExpectStalls(Stall::kCompletion, 1, 200 * pause_ns, 200 * pause_ns);
}

class SharedCounters : public Counters<Shared> {};

/// A batch of one slot whose destructor does not throw.
struct OneSlot {
  explicit OneSlot(SendQueue<ObservedCpu, Shared, Thread, Counted>& queue) : batch(queue.Begin(1)) {}
  ~OneSlot() noexcept {}
  SendQueue<ObservedCpu, Shared, Thread, Counted>::Batch batch;
};

TEST_F(SharedCounters, MeasureAWaitForAnEarlierPoster) {
  {
    Queue first(memory_.View()), second(memory_.View());
    OneSlot reserved(first);
    ObservedCpu::on_pause = [&](uint32_t pause) {
      if (pause != 5) return;
      EXPECT_TRUE(reserved.batch.Submit().status.ok());
    };
    EXPECT_TRUE(Put(second).status.ok());
  }
  ExpectStalls(Stall::kTurn, 1, 50, 50);
  EXPECT_EQ(counters().posts, 2U);
  EXPECT_EQ(counters().doorbells, 2U);
}

TEST_F(SharedCounters, CountADoorbellThatIsLeftToALaterPoster) {
  TestQueue memory(64);
  {
    Queue queues[] = {Queue(memory.View()), Queue(memory.View()), Queue(memory.View())};
    OneSlot first(queues[0]), second(queues[1]), third(queues[2]);
    EXPECT_TRUE(first.batch.Submit().status.ok());
    EXPECT_TRUE(second.batch.Submit().status.ok());
    EXPECT_TRUE(third.batch.Submit().status.ok());
  }
  EXPECT_EQ(memory.control.counters.posts, 3U);
  EXPECT_EQ(memory.control.counters.doorbells, 2U);
  EXPECT_EQ(memory.control.counters.elided, 1U);
  EXPECT_EQ(memory.control.counters.stalls[static_cast<uint32_t>(Stall::kTurn)].count, 0U);
}

TEST(SharedCountersUnderLoad, LoseNothing) {
  constexpr uint32_t kThreads = 4, kPosts = 3000;
  TestQueue memory(64);
  TestNic nic(memory);
  NicThread thread(nic);
  Together(kThreads, [&](uint32_t) {
    SendQueue<Cpu, Shared, Thread, Counted> queue(memory.View());
    uint32_t from = 0, to = 0, last_seen = 0;
    for (uint32_t i = 0; i < kPosts; ++i) {
      ASSERT_TRUE(queue.Post(Write(Remote(to), Local(from)), Soon()).status.ok());
      const auto posts = static_cast<uint32_t>(Cpu::Load(&memory.control.counters.posts));
      ASSERT_GE(posts, last_seen) << "the host reads while posters add";
      last_seen = posts;
    }
    ASSERT_TRUE(queue.Flush(Soon()).ok());
  });
  thread.Stop();
  const QueueCounters& counters = memory.control.counters;
  EXPECT_EQ(counters.posts, kThreads * kPosts);
  EXPECT_EQ(counters.wqebbs, kThreads * kPosts);
  EXPECT_EQ(counters.doorbells + counters.elided, kThreads * kPosts);
  EXPECT_GE(counters.polls, kThreads);
}

TEST(WarpCounters, CountACallOfAllLanesOnce) {
  TestQueue memory(64);
  TestNic nic(memory);
  std::array<uint64_t, 8> words{};
  RunLanes(0xff, [&](uint32_t lane) {
    SendQueue<Cpu, Shared, Warp, Counted> queue(memory.View(), Warp(0xff));
    for (int i = 0; i < 3; ++i)
      EXPECT_TRUE(queue.Post(Write(Remote(words[lane]), Local(words[lane]))).status.ok());
  });
  EXPECT_EQ(memory.control.counters.posts, 3U);
  EXPECT_EQ(memory.control.counters.wqebbs, 24U);
  EXPECT_EQ(memory.control.counters.doorbells, 3U);
}

class Tracing : public Counters<Shared> {
 protected:
  static constexpr uint32_t kSlots = 8;
  using TracedQueue = SendQueue<ObservedCpu, Shared, Thread, Traced>;

  Tracing() { memory_.control.trace = {ring_.data(), kSlots}; }

  Posted Put(TracedQueue& queue, const WaitLimit& limit = {}) {
    return queue.Post(Write(Remote(word_), Local(word_)), limit);
  }
  const TraceEvent& At(TraceKind kind, uint32_t index) const {
    return ring_[static_cast<uint32_t>(kind) * kSlots + index % kSlots];
  }
  void Expect(TraceKind kind, uint32_t index, uint64_t time_ns, uint32_t value) const {
    SCOPED_TRACE(static_cast<int>(kind));
    EXPECT_EQ(At(kind, index).index, index);
    EXPECT_EQ(At(kind, index).time_ns, ObservedCpu::kStart + time_ns);
    EXPECT_EQ(At(kind, index).value, value);
  }
  uint32_t Events() const {
    uint32_t events = 0;
    for (const TraceEvent& event : ring_) events += event.time_ns != 0;
    return events;
  }

  std::array<TraceEvent, kSlots * kTraceKinds> ring_{};
};

TEST_F(Tracing, StoresTheStepsOfAPostAndItsWait) {
  TracedQueue queue(memory_.View());
  const Posted posted = Put(queue);
  ObservedCpu::now += 100;
  StepAtPause(4);
  EXPECT_TRUE(queue.Wait(posted.ticket, kLimit).ok());
  Expect(TraceKind::kPost, 0, 0, 1);
  Expect(TraceKind::kDoorbell, 0, 0, 1);
  Expect(TraceKind::kDone, 0, 100, 40);
  EXPECT_EQ(Events(), 3U);
}

TEST_F(Tracing, StoresWaitsWithTheirCauseAndDuration) {
  TracedQueue first(memory_.View()), second(memory_.View());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Put(first).status.ok());
  auto batch = first.Begin(1);
  ObservedCpu::on_pause = [&](uint32_t pause) {
    if (pause == 2) Step();
    if (pause != 5) return;
    EXPECT_TRUE(batch.Submit().status.ok());
  };
  EXPECT_TRUE(Put(second, kLimit).status.ok());
  Expect(TraceKind::kPost, 4, 0, 1);
  Expect(TraceKind::kFull, 4, 0, 20);
  Expect(TraceKind::kTurn, 4, 20, 30);
  Expect(TraceKind::kDoorbell, 4, 50, 1);
}

TEST_F(Tracing, StoresNoTestAndTheEndOfAWaitThatGaveUp) {
  TracedQueue queue(memory_.View());
  const Posted posted = Put(queue);
  const uint32_t before = Events();
  EXPECT_EQ(queue.Test(posted.ticket).code, Code::kPending);
  EXPECT_EQ(Events(), before);
  EXPECT_EQ(queue.Wait(posted.ticket, {.deadline_ns = ObservedCpu::kStart + 1}).code, Code::kTimeout);
  EXPECT_GE(At(TraceKind::kWait, 0).value, 1U);
}

TEST_F(Tracing, NeedsNoRing) {
  memory_.control.trace = {};
  {
    TracedQueue queue(memory_.View());
    EXPECT_TRUE(Put(queue).status.ok());
  }
  EXPECT_EQ(counters().posts, 1U);
  EXPECT_EQ(Events(), 0U);
}

TEST(ContendedCounters, CountTheDoorbellThatAPosterAtTheGateRingsForOthers) {
  TestQueue memory(4);
  TestNic nic(memory);
  const QueueView view = ViewFor<Contended>(memory);
  using CountedQueue = SendQueue<Cpu, Contended, Thread, Counted>;
  {
    CountedQueue first(view), second(view);
    ASSERT_TRUE(first.Post(Nop()).status.ok());
    auto batch = second.Begin(1);
    std::jthread late([&] { EXPECT_EQ(CountedQueue(view).Begin(3).status().code, Code::kFull); });
    ASSERT_TRUE(AwaitReserved(memory, 5)) << "the third poster never came to the gate";
    ASSERT_TRUE(batch.Submit().status.ok()) << "it leaves its doorbell to the third";
  }
  while (nic.Step()) {
  }
  const QueueCounters& counters = memory.control.counters;
  EXPECT_EQ(counters.posts, 2U);
  EXPECT_EQ(counters.elided, 1U);
  EXPECT_EQ(counters.doorbells, 2U);
  EXPECT_EQ(nic.next(), 2U);
}

}  // namespace
}  // namespace warpverbs::device
