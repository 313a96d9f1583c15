#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "pair.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/device/atomics.hpp"

/// Tests each operation from its call to the peer's memory.
namespace warpverbs::e2e {
namespace {

using device::Code;

template <class Sharing>
class Operations : public testing::Test {
 protected:
  Operations() { pair.Connect(); }

  template <class Operation>
  void Do(const Operation& operation) {
    const device::Posted posted = queue.Post(operation, Within());
    ASSERT_EQ(posted.status.code, Code::kOk);
    ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kOk);
  }

  Pair pair{{.a = {.depth = 8}}};
  Queue<Sharing> queue{pair.a.View()};
};
using Sharings = testing::Types<device::Exclusive, device::Shared>;
TYPED_TEST_SUITE(Operations, Sharings);

TYPED_TEST(Operations, WriteCopiesToThePeer) {
  this->pair.Source(3) = 42;
  this->Do(device::Write(this->pair.Remote(40), this->pair.Local(24, 8)));
  EXPECT_EQ(this->pair.Target(5), 42u);
  EXPECT_EQ(this->pair.Target(4), 0u);
  EXPECT_EQ(this->pair.Target(6), 0u);
}

TYPED_TEST(Operations, ReadCopiesFromThePeer) {
  this->pair.Target(5) = 42;
  this->Do(device::Read(this->pair.Remote(40), this->pair.Local(24, 8)));
  EXPECT_EQ(this->pair.Source(3), 42u);
  EXPECT_EQ(this->pair.Source(2), 0u);
  EXPECT_EQ(this->pair.Source(4), 0u);
}

TYPED_TEST(Operations, GatheredEntriesFormOneMessageOfEveryCount) {
  Pair wide({.a = {.depth = 16}});  // a write of 30 entries and its NOP take 9 slots
  wide.Connect();
  Queue<TypeParam> posts(wide.a.View());
  for (uint64_t i = 0; i < 1024; ++i) wide.SourceAt<uint8_t>(i) = static_cast<uint8_t>(7 * i + 1);
  for (uint32_t count = 0; count <= device::kMaxGatherEntries; ++count) {
    SCOPED_TRACE(count);
    std::memset(&wide.Target(0), 0, 1024);
    std::vector<device::LocalMemory> entries;
    std::vector<uint8_t> expected;
    for (uint32_t i = 0; i < count; ++i) {
      entries.push_back(wide.Local(31 * i, i % 6));
      for (uint32_t at = 0; at < i % 6; ++at) expected.push_back(wide.SourceAt<uint8_t>(31 * i + at));
    }
    const device::Posted posted =
        posts.Post(device::WriteGather(wide.Remote(8), entries.data(), count), Within());
    ASSERT_EQ(posted.status.code, Code::kOk);
    ASSERT_EQ(posts.Wait(posted.ticket, Within()).code, Code::kOk);
    expected.resize(1000);
    for (uint32_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(wide.TargetAt<uint8_t>(8 + i), expected[i]) << "byte " << i;
  }
}

TYPED_TEST(Operations, ListWritesAllEntries) {
  Pair wide({.a = {.depth = 64}});
  wide.Connect();
  const uint32_t lkey = wide.Local(0, 1).lkey.raw, rkey = wide.Remote(0).rkey.raw;
  for (uint64_t i = 0; i < 512; ++i) wide.Source(i) = i + 1;
  std::vector<device::ListEntry> list;
  for (uint64_t i = 0; i < 100; ++i)  // pairs of neighbours
    list.push_back({wide.Local(8 * (i + i / 2), 8).addr, wide.Remote(8 * (2 * (i / 2) + i)).addr, 8,
                    mlx5::Be32{lkey}, mlx5::Be32{rkey}});
  for (uint32_t round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    std::memset(&wide.Target(0), 0, 4096);
    arch::cpu::RunBlock(32, [&](uint32_t) {
      device::SendQueue<Cpu, TypeParam, device::Warp> posts(wide.a.View(), device::Warp(0xffffffff));
      const device::Posted posted = posts.PostList(list.data(), 100, Within());
      ASSERT_EQ(posted.status.code, Code::kOk);
      ASSERT_EQ(posted.ticket.index, round * 50 + 49) << "each wide is one write";
      ASSERT_EQ(posts.Wait(posted.ticket, Within()).code, Code::kOk);
    });
    for (uint64_t i = 0; i < 100; ++i) ASSERT_EQ(wide.Target(2 * (i / 2) + i), i + i / 2 + 1);
  }
}

TYPED_TEST(Operations, TwoEntriesFormOneMessageInEverySplit) {
  constexpr uint64_t kBytes = 33;
  for (uint64_t first = 0; first <= kBytes; ++first) {
    for (uint64_t i = 0; i < kBytes; ++i)
      this->pair.template SourceAt<uint8_t>(i < first ? i : 512 + i - first) = static_cast<uint8_t>(i + 1);
    std::memset(&this->pair.Target(0), 0, 64);
    const device::LocalMemory one = this->pair.Local(0, first), two = this->pair.Local(512, kBytes - first);
    this->Do(device::Write(this->pair.Remote(0), one, two));
    for (uint64_t i = 0; i < 64; ++i)
      ASSERT_EQ(this->pair.template TargetAt<uint8_t>(i), i < kBytes ? i + 1 : 0) << "split at " << first;

    std::memset(&this->pair.Source(0), 0, 1024);
    this->Do(device::Read(this->pair.Remote(0), one, two));
    for (uint64_t i = 0; i < kBytes; ++i)
      ASSERT_EQ(this->pair.template SourceAt<uint8_t>(i < first ? i : 512 + i - first), i + 1)
          << "split at " << first;
    ASSERT_EQ(this->pair.template SourceAt<uint8_t>(first), 0) << "beyond the first entry";
    ASSERT_EQ(this->pair.template SourceAt<uint8_t>(512 + kBytes - first), 0) << "beyond the second entry";
  }
}

TYPED_TEST(Operations, EmptyMessagesCompleteAndChangeNothing) {
  this->Do(device::Write(this->pair.Remote(0), this->pair.Local(0, 0)));
  this->Do(device::Read(this->pair.Remote(0), this->pair.Local(0, 0)));
  this->Do(device::Write(this->pair.Remote(0), {}));
  for (size_t i = 0; i < 512; ++i) ASSERT_EQ(this->pair.Target(i) + this->pair.Source(i), 0u);
}

TYPED_TEST(Operations, InlineValuesOfEverySizeArrive) {
  const auto expect = [&]<size_t kBytes>(std::array<uint8_t, kBytes> value) {
    std::generate(value.begin(), value.end(), [n = uint8_t{0}]() mutable { return ++n; });
    std::memset(&this->pair.Target(0), 0, 64);
    this->Do(device::WriteInline{this->pair.Remote(8), value});
    for (size_t i = 0; i < 64; ++i)
      ASSERT_EQ(this->pair.template TargetAt<uint8_t>(i), i >= 8 && i < 8 + kBytes ? i - 7 : 0) << kBytes;
  };
  expect(std::array<uint8_t, 1>{});
  expect(std::array<uint8_t, 4>{});
  expect(std::array<uint8_t, 12>{});
  expect(std::array<uint8_t, 13>{});
  expect(std::array<uint8_t, 28>{});
}

TYPED_TEST(Operations, NopCompletesInOrder) {
  this->pair.Source(0) = 42;
  ASSERT_TRUE(
      this->queue.Post(device::Write(this->pair.Remote(0), this->pair.Local(0, 8)), Within()).status.ok());
  this->Do(device::Nop());
  EXPECT_EQ(this->pair.Target(0), 42u);
}

TYPED_TEST(Operations, FencedWriteSendsTheResultOfTheReadBeforeIt) {
  for (uint64_t value = 1; value <= 100; ++value) {
    this->pair.Target(0) = value;
    ASSERT_TRUE(
        this->queue.Post(device::Read(this->pair.Remote(0), this->pair.Local(0, 8)), Within()).status.ok());
    ASSERT_TRUE(this->queue.Post(device::Fence{}, Within(), mlx5::kCqeOnError).status.ok());
    this->Do(device::Write(this->pair.Remote(8), this->pair.Local(0, 8)));
    ASSERT_EQ(this->pair.Target(1), value);
  }
}

TYPED_TEST(Operations, SequencePostsBothAtOnce) {
  this->pair.Source(0) = 42;
  const device::Sequence both{device::Write(this->pair.Remote(0), this->pair.Local(0, 8)),
                              device::Read(this->pair.Remote(0), this->pair.Local(8, 8))};
  const device::Posted posted = this->queue.Post(both, Within());
  EXPECT_EQ(posted.ticket.index, 1u);
  ASSERT_EQ(this->queue.Wait(posted.ticket, Within()).code, Code::kOk);
  EXPECT_EQ(this->pair.Source(1), 42u);
}

TYPED_TEST(Operations, DumpOfOwnMemoryCompletes) {
  this->Do(device::Dump{this->pair.Local(0, 4096)});
  this->Do(device::Dump{this->pair.Local(0, 0)});
}

TYPED_TEST(Operations, DumpOfMemoryWithoutARegionFails) {
  device::LocalMemory wrong = this->pair.Local(0, 8);
  wrong.lkey.raw = ~wrong.lkey.raw;
  const device::Posted posted = this->queue.Post(device::Dump{wrong}, Within());
  const device::Status status = this->queue.Wait(posted.ticket, Within());
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(static_cast<mlx5::Syndrome>(status.syndrome), mlx5::Syndrome::kLocalProtection);
}

TEST(OperationsWithDump, ReadsAndFetchesTakeOneMoreSlot) {
  Pair pair({.a = {.depth = 8, .dump_after_read = true}});
  pair.Connect();
  Queue<device::Exclusive> queue(pair.a.View());
  uint32_t expected = ~0u;
  const auto run = [&](const auto& operation, uint32_t slots) {
    const device::Posted posted = queue.Post(operation, Within());
    ASSERT_EQ(posted.status.code, Code::kOk);
    EXPECT_EQ(posted.ticket.index, expected += slots);
    ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kOk);
  };
  for (uint64_t i = 0; i < 100; ++i) {
    pair.Target(0) = i + 1;
    run(device::Read(pair.Remote(0), pair.Local(0, 8)), 2);
    EXPECT_EQ(pair.Source(0), i + 1);
    run(device::FetchAdd<uint64_t>(pair.Remote(0), 5, pair.Local(8, 8)), 2);
    EXPECT_EQ(pair.Source(1), i + 1);
    EXPECT_EQ(pair.Target(0), i + 6);
    run(device::Swap<uint64_t>(pair.Remote(0), 9, pair.Local(8, 8)), 3);
    EXPECT_EQ(pair.Source(1), i + 6);
    run(device::FetchAdd<uint64_t>(pair.Remote(0), 1), 1);
    run(device::Write(pair.Remote(0), pair.Local(0, 8)), 1);
    run(device::Read(pair.Remote(0), pair.Local(0, 0)), 2);
  }
}

TEST(OperationsTooLarge, AreRefusedAndPostNothing) {
  Pair pair({.a = {.depth = 2}});
  pair.Connect();
  Queue<device::Exclusive> queue(pair.a.View());
  const device::Posted swap = queue.Post(device::Swap<uint64_t>(pair.Remote(0), 1));
  EXPECT_EQ(swap.status.code, Code::kInvalid);
  EXPECT_EQ(swap.status.request_error, device::RequestError::kTooManySlots);
  const device::Posted send = queue.Post(device::Send({0, uint64_t{1} << 40, {}}));
  EXPECT_EQ(send.status.code, Code::kInvalid);
  EXPECT_EQ(send.status.request_error, device::RequestError::kMessageTooLong);
  const device::Posted good = pair.PutWord(queue, 0);
  EXPECT_EQ(good.ticket.index, 0u);
  EXPECT_EQ(queue.Wait(good.ticket, Within()).code, Code::kOk);
}

}  // namespace
}  // namespace warpverbs::e2e
