#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "abort.hpp"
#include "pair.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/device/signal.hpp"

/// Tests receives that a kernel posts and polls, and the sends that consume them.
namespace warpverbs::e2e {
namespace {

using device::Code;
using device::Received;

class Receive : public testing::Test {
 protected:
  explicit Receive(uint32_t depth = 4)
      : pair({.a = {.depth = 8}, .b = {.receive_depth = depth, .receive_scatter = 2}}) {
    pair.Connect();
  }

  template <class Operation>
  void Do(const Operation& operation) {
    const device::Posted posted = queue.Post(operation, Within());
    ASSERT_EQ(posted.status.code, Code::kOk);
    ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kOk);
  }
  void Offer(const device::LocalMemory& local, const device::LocalMemory& second = {}) {
    ASSERT_EQ(receives.Post(local, second).code, Code::kOk);
    receives.Submit();
  }

  Pair pair;
  Queue<device::Exclusive> queue{pair.a.View()};
  device::ReceiveQueue<Cpu> receives{pair.b.ReceiveView()};
};

TEST_F(Receive, SendArrivesInThePostedMemory) {
  pair.Source(0) = 42;
  Offer(pair.TargetLocal(64, 64));
  Do(device::Send(pair.Local(0, 8)));
  const Received received = receives.Poll(Within());
  EXPECT_EQ(received.status.code, Code::kOk);
  EXPECT_EQ(received.index, 0u);
  EXPECT_EQ(received.bytes, 8u);
  EXPECT_FALSE(received.has_imm);
  EXPECT_FALSE(received.is_write);
  EXPECT_EQ(pair.Target(8), 42u);
  EXPECT_EQ(receives.PollOnce().status.code, Code::kPending);
}

TEST_F(Receive, GatheredSendIsOneMessage) {
  Pair wide({.a = {.depth = 16}, .b = {.receive_depth = 4}});
  wide.Connect();
  Queue<device::Exclusive> sends(wide.a.View());
  device::ReceiveQueue<Cpu> arrivals(wide.b.ReceiveView());
  ASSERT_EQ(arrivals.Post(wide.TargetLocal(0, 512)).code, Code::kOk);
  arrivals.Submit();
  std::vector<device::LocalMemory> entries;
  for (uint32_t i = 0; i < device::kMaxGatherEntries; ++i) {
    wide.Source(2 * i) = 100 + i;
    entries.push_back(wide.Local(16 * i, 8));
  }
  constexpr mlx5::Be32 kImm{0x12345678};
  const device::Posted posted =
      sends.Post(device::SendImmGather(entries.data(), device::kMaxGatherEntries, kImm), Within());
  ASSERT_EQ(posted.status.code, Code::kOk);
  ASSERT_EQ(sends.Wait(posted.ticket, Within()).code, Code::kOk);
  const Received received = arrivals.Poll(Within());
  EXPECT_EQ(received.bytes, 8 * device::kMaxGatherEntries);
  EXPECT_EQ(received.imm, kImm);
  for (uint32_t i = 0; i < device::kMaxGatherEntries; ++i) EXPECT_EQ(wide.Target(i), 100 + i);
}

TEST_F(Receive, ImmediateOfASendArrivesUnchanged) {
  constexpr mlx5::Be32 kImm{0x12345678};
  Offer(pair.TargetLocal(0, 64));
  Do(device::SendImm(pair.Local(0, 16), kImm));
  const Received received = receives.Poll(Within());
  EXPECT_EQ(received.status.code, Code::kOk);
  EXPECT_EQ(received.bytes, 16u);
  EXPECT_TRUE(received.has_imm);
  EXPECT_FALSE(received.is_write);
  EXPECT_EQ(received.imm, kImm);
}

TEST_F(Receive, WriteWithImmediateTakesAReceiveButNotItsMemory) {
  constexpr mlx5::Be32 kImm{0xfedcba98};
  pair.Source(0) = 42;
  pair.Target(0) = 7;
  Offer(pair.TargetLocal(0, 64));
  Do(device::WriteImm(pair.Remote(80), pair.Local(0, 8), kImm));
  const Received received = receives.Poll(Within());
  EXPECT_EQ(received.status.code, Code::kOk);
  EXPECT_EQ(received.bytes, 8u);
  EXPECT_TRUE(received.has_imm);
  EXPECT_TRUE(received.is_write);
  EXPECT_EQ(received.imm, kImm);
  EXPECT_EQ(pair.Target(10), 42u);
  EXPECT_EQ(pair.Target(0), 7u);
}

TEST_F(Receive, EmptySendArrives) {
  Offer({});
  Do(device::Send({}));
  const Received received = receives.Poll(Within());
  EXPECT_EQ(received.status.code, Code::kOk);
  EXPECT_EQ(received.bytes, 0u);
}

TEST_F(Receive, MessageFillsTwoSegmentsInEverySplit) {
  constexpr uint64_t kBytes = 21;
  for (uint64_t i = 0; i < kBytes; ++i) pair.SourceAt<uint8_t>(i) = static_cast<uint8_t>(i + 1);
  for (uint64_t first = 0; first <= kBytes; ++first) {
    for (size_t i = 0; i < 128; ++i) pair.Target(i) = 0;
    Offer(pair.TargetLocal(0, first), pair.TargetLocal(512, kBytes - first));
    Do(device::Send(pair.Local(0, 5), pair.Local(5, kBytes - 5)));
    const Received received = receives.Poll(Within());
    ASSERT_EQ(received.status.code, Code::kOk) << "split at " << first;
    EXPECT_EQ(received.bytes, kBytes);
    for (uint64_t i = 0; i < kBytes; ++i)
      ASSERT_EQ(pair.TargetAt<uint8_t>(i < first ? i : 512 + i - first), i + 1) << "split at " << first;
  }
}

TEST_F(Receive, FullQueueReturnsFull) {
  for (uint32_t i = 0; i < 4; ++i) ASSERT_EQ(receives.Post(pair.TargetLocal(0, 8)).code, Code::kOk);
  EXPECT_EQ(receives.Post(pair.TargetLocal(0, 8)).code, Code::kFull);
  receives.Submit();
  Do(device::Send(pair.Local(0, 8)));
  ASSERT_EQ(receives.Poll(Within()).status.code, Code::kOk);
  EXPECT_EQ(receives.Post(pair.TargetLocal(0, 8)).code, Code::kOk);
  EXPECT_EQ(receives.Post(pair.TargetLocal(0, 8)).code, Code::kFull);
}

TEST_F(Receive, PollWithoutASendEndsAtItsLimit) {
  EXPECT_EQ(receives.Poll({}).status.code, Code::kTimeout);
  EXPECT_EQ(receives.Poll({.deadline_ns = Cpu::NowNs() + 1'000'000}).status.code, Code::kTimeout);
  EXPECT_EQ(receives.Poll(Abort().limit()).status.code, Code::kAborted);
}

TEST_F(Receive, MessageLongerThanItsReceiveFailsBothSidesAndLaterReceives) {
  Offer(pair.TargetLocal(0, 4), pair.TargetLocal(512, 3));
  Offer(pair.TargetLocal(0, 64));
  const device::Posted posted = queue.Post(device::Send(pair.Local(0, 8)), Within());
  const device::Status sent = queue.Wait(posted.ticket, Within());
  EXPECT_EQ(sent.code, Code::kError);
  EXPECT_EQ(static_cast<mlx5::Syndrome>(sent.syndrome), mlx5::Syndrome::kRemoteInvalidRequest);
  const Received received = receives.Poll(Within());
  EXPECT_EQ(received.status.code, Code::kError);
  EXPECT_EQ(static_cast<mlx5::Syndrome>(received.status.syndrome), mlx5::Syndrome::kLocalLength);

  Offer(pair.TargetLocal(0, 64));  // posted too late
  for (uint32_t index = 1; index <= 2; ++index) {
    const Received flushed = receives.Poll(Within());
    EXPECT_EQ(flushed.status.code, Code::kError);
    EXPECT_EQ(flushed.index, index);
    EXPECT_EQ(static_cast<mlx5::Syndrome>(flushed.status.syndrome), mlx5::Syndrome::kFlushed);
  }
}

TEST_F(Receive, ManyMessagesPassFourReceivesAndWrapTheirIndex) {
  constexpr uint32_t kMessages = 70'000;
  uint64_t offered = 0;  // receives posted: a sender that comes too early would retry much later
  std::jthread sender([&] {
    for (uint32_t i = 0; i < kMessages; ++i) {
      if (!device::WaitSignal<Cpu>(&offered, device::Compare::kGreaterOrEqual, i + 1, Within()).ok()) return;
      pair.SourceAt<uint32_t>(4 * (i % 8)) = i;
      const device::Posted posted = queue.Post(device::SendImm(pair.Local(4 * (i % 8), 4), mlx5::Be32{i}), Within());
      if (!queue.Wait(posted.ticket, Within()).ok()) return;
    }
  });
  uint32_t posted = 0;
  for (uint32_t taken = 0; taken < kMessages; ++taken) {
    for (; posted < kMessages && receives.Post(pair.TargetLocal(4 * (posted % 4), 4)).ok(); ++posted) {
    }
    receives.Submit();
    Cpu::StoreRelease(&offered, uint64_t{posted});
    const Received received = receives.Poll(Within());
    ASSERT_EQ(received.status.code, Code::kOk) << taken;
    ASSERT_EQ(received.index, taken);
    ASSERT_EQ(received.imm.raw, taken);
    ASSERT_EQ(pair.TargetAt<uint32_t>(4 * (taken % 4)), taken);
    if (taken % 1000 == 999) {  // the next kernel
      receives = device::ReceiveQueue<Cpu>(pair.b.ReceiveView());
    }
  }
}

}  // namespace
}  // namespace warpverbs::e2e
