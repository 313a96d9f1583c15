#include <gtest/gtest.h>

#include <vector>

#include "pair.hpp"

/// WaitForWrite(): each wait takes one notification, none is lost, and all bytes have arrived by then.
namespace warpverbs::transport {
namespace {

struct Notification : testing::Test {
  Notification() { pair.Connect(); }

  Pair pair{TransportConfig{.queue_pairs = 4, .receive_depth = 16, .piece_bytes = 4096}};
};

TEST_F(Notification, KeepsAThousandUntilTheFirstWait) {
  Buffer from(64), to(64);
  std::vector<std::future<Status>> writes, waits;
  for (int i = 0; i < 1000; ++i) {
    writes.push_back(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true}));
  }
  for (auto& write : writes) ASSERT_SUCCESS(ResultOf(std::move(write)));
  for (int i = 0; i < 1000; ++i) waits.push_back(pair.b.WaitForWrite());
  for (int i = 0; i < 1000; ++i) ASSERT_SUCCESS(ResultOf(std::move(waits[i]))) << i;
  EXPECT_FALSE(TakeNotification(pair.b)) << "all thousand were taken";
  waits.push_back(pair.b.WaitForWrite());
  EXPECT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(ResultOf(std::move(waits[1000])));
}

TEST_F(Notification, IsAbsentForWritesWithoutNotify) {
  Buffer from(64), to(64);
  for (int i = 0; i < 100; ++i) {
    ASSERT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote())));
    ASSERT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(size_t{0}, 0), to.memory.Remote())));
  }
  EXPECT_FALSE(TakeNotification(pair.b));
  ASSERT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(ResultOf(pair.b.WaitForWrite()));
  EXPECT_FALSE(TakeNotification(pair.b)) << "there was only one";
}

TEST_F(Notification, CompletesWaitsInOrder) {
  Buffer from(64), to(64);
  std::vector<int> order;
  std::promise<void> all;
  for (int i = 0; i < 10; ++i) {
    pair.b.WaitForWrite({}, [&, i](const Status&) {  // all callbacks run on the thread of b's loop
      order.push_back(i);
      if (order.size() == 10) all.set_value();
    });
  }
  for (int i = 0; i < 10; ++i) {
    ASSERT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
  }
  ASSERT_EQ(all.get_future().wait_for(kTestTimeout), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

/// Each write has many pieces on four queue pairs, and its own pattern and place.
TEST_F(Notification, ComesAfterAllBytes) {
  constexpr size_t kWrites = 100, kBytes = 40'001;
  Buffer from(kWrites * kBytes), to(kWrites * kBytes);
  FillPattern(from.bytes, 8);
  std::vector<std::future<Status>> writes;
  for (size_t i = 0; i < kWrites; ++i) {
    const RdmaRemoteBuffer place{to.bytes.data() + i * kBytes, to.memory.RemoteKey(), kBytes};
    writes.push_back(pair.a.Write(from.memory.CreateView(i * kBytes, kBytes), place, {.notify = true}));
  }
  for (size_t i = 0; i < kWrites; ++i) {
    ASSERT_SUCCESS(ResultOf(pair.b.WaitForWrite()));
    const auto start = static_cast<ptrdiff_t>(i * kBytes);
    ASSERT_TRUE(
        std::equal(to.bytes.begin() + start, to.bytes.begin() + start + kBytes, from.bytes.begin() + start))
        << "write " << i;
  }
  for (auto& write : writes) ASSERT_SUCCESS(ResultOf(std::move(write)));
}

TEST_F(Notification, TimedOutWaitTakesNone) {
  Buffer from(64), to(64);
  EXPECT_EQ(ResultOf(pair.b.WaitForWrite({.timeout = std::chrono::milliseconds(1)})).Describe(),
            "timeout: no notified write of the peer has arrived within 1 ms: choose a longer timeout, or "
            "check that "
            "the peer is there and writes with notify");
  ASSERT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(ResultOf(pair.b.WaitForWrite({.timeout = kTestTimeout})));
}

TEST_F(Notification, WorksInBothDirections) {
  Buffer at_a(64), at_b(64);
  for (int i = 0; i < 200; ++i) {
    auto arrival = pair.b.WaitForWrite();
    auto ping = pair.a.Write(at_a.memory.CreateView(), at_b.memory.Remote(), {.notify = true});
    ASSERT_SUCCESS(ResultOf(std::move(arrival)));
    arrival = pair.a.WaitForWrite();
    auto pong = pair.b.Write(at_b.memory.CreateView(), at_a.memory.Remote(), {.notify = true});
    ASSERT_SUCCESS(ResultOf(std::move(arrival)));
    ASSERT_SUCCESS(ResultOf(std::move(ping)));
    ASSERT_SUCCESS(ResultOf(std::move(pong)));
  }
}

}  // namespace
}  // namespace warpverbs::transport
