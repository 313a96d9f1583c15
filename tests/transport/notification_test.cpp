#include <gtest/gtest.h>

#include <vector>

#include "pair.hpp"

/// WaitForWrite(): one wait takes one notification, none is lost, all bytes are there.
namespace warpverbs::transport {
namespace {

struct Notification : testing::Test {
  Notification() { pair.Connect(); }

  Pair pair{TransportOptions{.queue_pairs = 4, .receive_depth = 16, .piece_bytes = 4096}};
};

TEST_F(Notification, OfAThousandWritesBeforeTheFirstWaitAreAllThere) {
  Buffer from(64), to(64);
  std::vector<std::future<Status>> writes, waits;
  for (int i = 0; i < 1000; ++i) {
    writes.push_back(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true}));
  }
  for (auto& write : writes) ASSERT_SUCCESS(Outcome(std::move(write)));
  for (int i = 0; i < 1000; ++i) waits.push_back(pair.b.WaitForWrite());
  for (int i = 0; i < 1000; ++i) ASSERT_SUCCESS(Outcome(std::move(waits[i]))) << i;
  EXPECT_FALSE(TakesOne(pair.b)) << "the thousand are taken";
  waits.push_back(pair.b.WaitForWrite());
  EXPECT_SUCCESS(Outcome(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(Outcome(std::move(waits[1000])));
}

TEST_F(Notification, IsNotOfWritesThatDoNotNotify) {
  Buffer from(64), to(64);
  for (int i = 0; i < 100; ++i) {
    ASSERT_SUCCESS(Outcome(pair.a.Write(from.memory.CreateView(), to.memory.Remote())));
    ASSERT_SUCCESS(Outcome(pair.a.Write(from.memory.CreateView(size_t{0}, 0), to.memory.Remote())));
  }
  EXPECT_FALSE(TakesOne(pair.b));
  ASSERT_SUCCESS(Outcome(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(Outcome(pair.b.WaitForWrite()));
  EXPECT_FALSE(TakesOne(pair.b)) << "one alone";
}

TEST_F(Notification, AnswersWaitsInTheirOrder) {
  Buffer from(64), to(64);
  std::vector<int> order;
  std::promise<void> all;
  for (int i = 0; i < 10; ++i) {
    pair.b.WaitForWrite({}, [&, i](const Status&) {  // all on the one thread of b's loop
      order.push_back(i);
      if (order.size() == 10) all.set_value();
    });
  }
  for (int i = 0; i < 10; ++i) {
    ASSERT_SUCCESS(Outcome(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
  }
  ASSERT_EQ(all.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

/// Writes of many pieces on four queue pairs, each with a pattern of its own at a place of its own.
TEST_F(Notification, TellsThatAllBytesAreThere) {
  constexpr size_t kWrites = 100, kBytes = 40'001;
  Buffer from(kWrites * kBytes), to(kWrites * kBytes);
  FillPattern(from.bytes, 8);
  std::vector<std::future<Status>> writes;
  for (size_t i = 0; i < kWrites; ++i) {
    const RdmaRemoteBuffer place{to.bytes.data() + i * kBytes, to.memory.RemoteKey(), kBytes};
    writes.push_back(pair.a.Write(from.memory.CreateView(i * kBytes, kBytes), place, {.notify = true}));
  }
  for (size_t i = 0; i < kWrites; ++i) {
    ASSERT_SUCCESS(Outcome(pair.b.WaitForWrite()));
    const auto start = static_cast<ptrdiff_t>(i * kBytes);
    ASSERT_TRUE(
        std::equal(to.bytes.begin() + start, to.bytes.begin() + start + kBytes, from.bytes.begin() + start))
        << "write " << i;
  }
  for (auto& write : writes) ASSERT_SUCCESS(Outcome(std::move(write)));
}

TEST_F(Notification, ThatTakesTooLongIsATimeoutAndTakesNoneWithIt) {
  Buffer from(64), to(64);
  EXPECT_EQ(
      Outcome(pair.b.WaitForWrite({.timeout = std::chrono::milliseconds(1)})).What(),
      "timeout: no write of the peer that notifies has arrived within 1 ms: wait longer, or see whether the "
      "peer is there and writes with notify");
  ASSERT_SUCCESS(Outcome(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(Outcome(pair.b.WaitForWrite({.timeout = kLong})));
}

TEST_F(Notification, GoesBothWaysAtOnce) {
  Buffer at_a(64), at_b(64);
  for (int i = 0; i < 200; ++i) {
    auto arrival = pair.b.WaitForWrite();
    auto ping = pair.a.Write(at_a.memory.CreateView(), at_b.memory.Remote(), {.notify = true});
    ASSERT_SUCCESS(Outcome(std::move(arrival)));
    arrival = pair.a.WaitForWrite();
    auto pong = pair.b.Write(at_b.memory.CreateView(), at_a.memory.Remote(), {.notify = true});
    ASSERT_SUCCESS(Outcome(std::move(arrival)));
    ASSERT_SUCCESS(Outcome(std::move(ping)));
    ASSERT_SUCCESS(Outcome(std::move(pong)));
  }
}

}  // namespace
}  // namespace warpverbs::transport
