// What the host reads of posters that count and trace.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "pair.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::e2e {
namespace {

using device::Stall;
using device::TraceKind;

template <class Sharing, class Observing>
using ObservedQueue = device::SendQueue<Cpu, Sharing, device::Thread, Observing>;

template <class Queue>
void PutAndWait(Pair& pair, Queue& queue, uint64_t value) {
  pair.Source(0) = value;
  const device::Posted posted = queue.Post(device::Write(pair.Remote(0), pair.Local(0, 8)), Within());
  ASSERT_TRUE(posted.status.ok());
  ASSERT_TRUE(queue.Wait(posted.ticket, Within()).ok());
  ASSERT_EQ(pair.Target(0), value);
}

const device::StallCounters& Of(const device::QueueCounters& counters, Stall cause) {
  return counters.stalls[static_cast<uint32_t>(cause)];
}

TEST(Observation, CountsThePostsOfOneThread) {
  constexpr uint64_t kPosts = 300;
  Pair pair;
  pair.Connect();
  {
    ObservedQueue<device::Exclusive, device::Counted> queue(pair.a.View());
    for (uint64_t i = 1; i <= kPosts; ++i) PutAndWait(pair, queue, i);
  }
  const device::QueueCounters counters = pair.a.Counters();
  EXPECT_EQ(counters.posts, kPosts);
  EXPECT_EQ(counters.wqebbs, kPosts);
  EXPECT_EQ(counters.doorbells, kPosts);
  EXPECT_EQ(counters.elided, 0U);
  EXPECT_GE(counters.polls, kPosts);
  const device::StallCounters& waits = Of(counters, Stall::kCompletion);
  EXPECT_LE(waits.count, kPosts);
  EXPECT_GT(waits.count, 0U) << "softhca takes longer than a first look";
  EXPECT_GE(waits.total_ns, waits.longest_ns);
  EXPECT_GT(waits.longest_ns, 0U);
  EXPECT_EQ(Of(counters, Stall::kFull).count, 0U);
  EXPECT_EQ(pair.b.Counters().posts, 0U);
}

TEST(Observation, KeepsTheCountsOverAReset) {
  Pair pair;
  pair.Connect();
  for (uint64_t round = 1; round <= 2; ++round) {
    {
      ObservedQueue<device::Shared, device::Counted> queue(pair.a.View());
      PutAndWait(pair, queue, round);
    }
    EXPECT_EQ(pair.a.Counters().posts, round);
    pair.Reconnect();
  }
}

TEST(Observation, CountsAllThreadsOfASharedQueue) {
  constexpr uint64_t kThreads = 4, kPosts = 500;
  Pair pair({.a = {.depth = 16}});
  pair.Connect();
  {
    std::vector<std::jthread> threads;
    for (uint64_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        ObservedQueue<device::Shared, device::Counted> queue(pair.a.View());
        device::Posted posted{};
        for (uint64_t post = 0; post < kPosts; ++post) {
          posted = queue.Post(device::Write(pair.Remote(0), pair.Local(0, 8)), Within());
          ASSERT_TRUE(posted.status.ok());
        }
        ASSERT_TRUE(queue.Wait(posted.ticket, Within()).ok());
      });
    }
    uint64_t seen = 0;
    while (seen < kPosts) {  // the host reads while they post
      const uint64_t posts = pair.a.Counters().posts;
      ASSERT_GE(posts, seen);
      seen = posts;
      std::this_thread::yield();
    }
  }
  const device::QueueCounters counters = pair.a.Counters();
  EXPECT_EQ(counters.posts, kThreads * kPosts);
  EXPECT_EQ(counters.doorbells + counters.elided, kThreads * kPosts);
}

TEST(Observation, TracesTheLastPosts) {
  constexpr uint64_t kPosts = 20;
  constexpr uint32_t kSlots = 8;
  Pair pair({.a = {.trace_slots = 5}});  // rounded up
  pair.Connect();
  EXPECT_TRUE(pair.a.Trace().empty());
  const uint64_t before = Cpu::NowNs();
  {
    ObservedQueue<device::Exclusive, device::Traced> queue(pair.a.View());
    for (uint64_t i = 1; i <= kPosts; ++i) PutAndWait(pair, queue, i);
  }
  const uint64_t after = Cpu::NowNs();
  const std::vector<host::TracedStep> steps = pair.a.Trace();
  ASSERT_EQ(steps.size(), 3 * kSlots) << "a post, a doorbell and a completion each";
  for (size_t i = 0; i < steps.size(); ++i) {
    constexpr TraceKind kKinds[] = {TraceKind::kPost, TraceKind::kDoorbell, TraceKind::kDone};
    SCOPED_TRACE(i);
    EXPECT_EQ(steps[i].kind, kKinds[i % 3]);
    EXPECT_EQ(steps[i].event.index, kPosts - kSlots + i / 3);
    EXPECT_GE(steps[i].event.time_ns, i == 0 ? before : steps[i - 1].event.time_ns);
    EXPECT_LE(steps[i].event.time_ns, after);
    if (steps[i].kind == TraceKind::kDone) continue;
    EXPECT_EQ(steps[i].event.value, 1U) << "one slot, one doorbell";
  }
  pair.a.Reset();
  EXPECT_TRUE(pair.a.Trace().empty());
}

TEST(Observation, RefusesARingThatIsTooLong) {
  try {
    const Pair pair({.a = {.trace_slots = (1 << 20) + 1}});
    FAIL();
  } catch (const host::Error& error) {
    EXPECT_NE(std::string(error.what()).find("the number of traced slots is out of range. Choose 0 to 2^20"),
              std::string::npos)
        << error.what();
  }
}

TEST(Observation, ReplacesAFileWithTheCountersOfAllEndpoints) {
  Pair pair;
  pair.Connect();
  {
    ObservedQueue<device::Exclusive, device::Counted> queue(pair.a.View());
    PutAndWait(pair, queue, 1);
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("warpverbs-observation-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string file = folder / "observed.json";
  std::ofstream(file) << "an old file";
  const host::Endpoint* const endpoints[] = {&pair.a, &pair.b};
  host::SaveObservations(file, endpoints);
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  for (const host::Endpoint* const endpoint : endpoints)
    EXPECT_NE(text.str().find("\"qpn\":" + std::to_string(endpoint->qpn()) + ","), std::string::npos);
  EXPECT_NE(text.str().find(R"("counters":{"posts":1,"wqebbs":1,"doorbells":1,"elided":0,"polls":)"),
            std::string::npos)
      << text.str();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1) << "no other file is left";
  std::filesystem::remove_all(folder);
  EXPECT_THROW(host::SaveObservations(file, endpoints), host::Error);
}

}  // namespace
}  // namespace warpverbs::e2e
