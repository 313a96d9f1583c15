#include <gtest/gtest.h>
#include <sys/resource.h>

#include <asio/post.hpp>
#include <atomic>
#include <stdexcept>
#include <thread>

#include "pair.hpp"

/// Many threads and many transports on one loop, and how a loop sleeps and passes exceptions on.
namespace warpverbs::transport {
namespace {

TEST(Threads, WriteAndWaitOnManyTransportsOfOneLoop) {
  constexpr int kPairs = 4, kThreads = 8, kRounds = 50;
  EventLoop loop;
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < kPairs; ++i) {
    pairs.push_back(std::make_unique<Pair>(TransportConfig{.piece_bytes = 1024}, &loop));
    pairs.back()->Connect();
  }
  std::atomic<int> failures{0};
  const auto expect = [&](std::future<Status> future) {
    failures += ResultOf(std::move(future)).ok() ? 0 : 1;
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Buffer from(4096), to(4096), back(4096);
      FillPattern(from.bytes, static_cast<uint64_t>(thread));
      for (int round = 0; round < kRounds; ++round) {
        for (const auto& pair : pairs) {
          expect(pair->a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true}));
          expect(pair->b.WaitForWrite());
          expect(pair->b.Read(back.memory.CreateMutableView(), to.memory.Remote()));
          failures += back.bytes == from.bytes ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  for (const auto& pair : pairs) EXPECT_FALSE(TakeNotification(pair->b)) << "there was one for each write";
}

TEST(Threads, CreateAndDestroyTransportsOfOneLoop) {
  // libibverbs opens and closes devices without a lock that ThreadSanitizer sees.
  const Buffer keeps_the_device_open(64);
  EventLoop loop;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        Pair pair({}, &loop);
        pair.Connect();
        Buffer from(64), to(64);
        EXPECT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote())));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(EventLoop, ExceptionOfAHandlerLeavesRunAndHarmsNoOther) {
  asio::io_context context;
  EventLoop loop(context);
  Pair pair({}, &loop);
  pair.Connect();
  pair.a.WaitForWrite({.timeout = std::chrono::milliseconds(0)},
                      [](const Status&) { throw std::runtime_error("thrown by a handler"); });
  std::vector<std::future<Status>> others;
  for (int i = 0; i < 3; ++i)
    others.push_back(pair.a.WaitForWrite({.timeout = std::chrono::milliseconds(0)}));
  int thrown = 0;
  const auto deadline = std::chrono::steady_clock::now() + kTestTimeout;
  while (!std::all_of(others.begin(), others.end(), IsReady) && std::chrono::steady_clock::now() < deadline) {
    try {
      context.run_one_for(std::chrono::milliseconds(100));
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  }
  EXPECT_EQ(thrown, 1);
  for (auto& other : others) EXPECT_EQ(ResultOf(std::move(other)), Code::kTimeout);
}

std::chrono::microseconds ProcessorTime(clockid_t clock) {
  timespec time{};
  EXPECT_EQ(clock_gettime(clock, &time), 0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_nsec / 1000);
}

/// Measures only the loop's thread, because softhca polls on another thread of this process.
TEST(EventLoop, SleepsWhileNothingHappens) {
  EventLoop loop;
  std::promise<clockid_t> clock_of_loop;
  asio::post(loop.executor(), [&] {
    clockid_t clock{};
    EXPECT_EQ(pthread_getcpuclockid(pthread_self(), &clock), 0);
    clock_of_loop.set_value(clock);
  });
  const clockid_t clock = GetInTime(clock_of_loop.get_future());
  Pair pair({}, &loop);
  pair.Connect();
  Buffer from(64), to(64);
  ASSERT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote())));
  auto pending = pair.b.WaitForWrite({.timeout = std::chrono::hours(1)});
  const auto before = ProcessorTime(clock);
  EXPECT_EQ(pending.wait_for(std::chrono::seconds(2)), std::future_status::timeout);
  EXPECT_LT(ProcessorTime(clock) - before, std::chrono::milliseconds(20)) << "one percent";
  ASSERT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(ResultOf(std::move(pending)));
}

}  // namespace
}  // namespace warpverbs::transport
