// Lists of writes, and messages that gather many entries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "golden.hpp"
#include "nic_thread.hpp"
#include "together.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using mlx5::WqeOpcode;

/// Threads that post a list together: a thread, a warp with holes, or a block whose last warp is shorter.
template <class S, class C>
struct Posters {
  using Sharing = S;
  using Cooperation = C;
  static constexpr uint32_t kLanes = 8, kThreads = 20;
  static constexpr arch::LaneMask kMask = 0b10110110;

  /// Calls `body(queue)` on each thread.
  template <class Body>
  static void Run(const QueueView& view, const Body& body) {
    if constexpr (std::is_same_v<C, Thread>) {
      SendQueue<Cpu, S> queue(view);
      body(queue);
    } else if constexpr (std::is_same_v<C, Warp>) {
      RunLanes(kMask, [&](uint32_t) {
        SendQueue<Cpu, S, Warp> queue(view, Warp(kMask));
        body(queue);
      });
    } else {
      arch::cpu::RunBlock(
          kThreads,
          [&](uint32_t) {
            SendQueue<Cpu, S, Block> queue(view, Block(Cpu::WarpLanes()));
            body(queue);
          },
          kLanes);
    }
  }
};

template <class T>
class ListTest : public testing::Test {
 protected:
  static constexpr uint32_t kWords = 200;
  ListTest() : from_(kWords), to_(kWords) { std::iota(from_.begin(), from_.end(), 1); }

  ListEntry Entry(uint32_t from, uint32_t to, uint32_t words) {
    return {reinterpret_cast<uint64_t>(from_.data() + from), reinterpret_cast<uint64_t>(to_.data() + to),
            words * sizeof(uint64_t), kTestKey, kTestKey};
  }

  /// Posts a list, and lets the NIC execute it.
  Posted Post(TestQueue& memory, TestNic& nic, const std::vector<ListEntry>& list) {
    std::vector<Posted> results;
    std::mutex mutex;
    T::Run(ViewFor<typename T::Sharing>(memory), [&](auto& queue) {
      const Posted posted = queue.PostList(list.data(), static_cast<uint32_t>(list.size()));
      const std::scoped_lock lock(mutex);
      results.push_back(posted);
    });
    while (nic.Step()) {
    }
    EXPECT_EQ(nic.violation(), "");
    for (const Posted& posted : results) {
      EXPECT_EQ(posted.status.code, results[0].status.code);
      EXPECT_EQ(posted.status.request_error, results[0].status.request_error);
      EXPECT_EQ(posted.ticket.index, results[0].ticket.index) << "all threads get the same ticket";
    }
    return results[0];
  }

  std::vector<uint64_t> from_, to_;
};

using Kinds = testing::Types<Posters<Exclusive, Thread>, Posters<Shared, Thread>, Posters<Exclusive, Warp>,
                             Posters<Shared, Warp>, Posters<Shared, Block>, Posters<Contended, Warp>,
                             Posters<Contended, Block>>;
TYPED_TEST_SUITE(ListTest, Kinds);

TYPED_TEST(ListTest, WritesEntriesOfAllCountsByOneDoorbell) {
  for (const uint32_t count : {1U, 5U, 6U, 21U, 64U}) {
    SCOPED_TRACE(count);
    TestQueue memory(64, 0U - 30);
    TestNic nic(memory, 0U - 30);
    std::fill(this->to_.begin(), this->to_.end(), 0);
    std::vector<ListEntry> list;
    for (uint32_t i = 0; i < count; ++i) list.push_back(this->Entry(3 * i, 2 * i, 1));
    const Posted posted = this->Post(memory, nic, list);
    ASSERT_TRUE(posted.status.ok());
    EXPECT_EQ(posted.ticket.index, 0U - 30 + count - 1);
    EXPECT_EQ(nic.doorbells(), 1U);
    EXPECT_EQ(nic.opcodes().size(), count);
    for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(this->to_[2 * i], 3 * i + 1);
    EXPECT_EQ(std::accumulate(this->to_.begin(), this->to_.end(), uint64_t{0}),
              uint64_t{3} * count * (count - 1) / 2 + count)
        << "nothing else is written";
    EXPECT_TRUE((SendQueue<Cpu, typename TypeParam::Sharing>(ViewFor<typename TypeParam::Sharing>(memory))
                     .Test(posted.ticket)
                     .ok()));
  }
}

TYPED_TEST(ListTest, CoalescesNeighboursThatTouchOnBothSides) {
  TestQueue memory(256);
  TestNic nic(memory);
  std::vector<ListEntry> list;
  for (uint32_t i = 0; i < 100; ++i) list.push_back(this->Entry(i, i, 1));  // one run
  list.push_back(this->Entry(100, 102, 2));                                 // touches here only
  list.push_back(this->Entry(103, 104, 2));                                 // touches there only
  list.push_back(this->Entry(105, 106, 1));                                 // touches both
  list.push_back(this->Entry(106, 107, 3));
  ASSERT_TRUE(this->Post(memory, nic, list).status.ok());
  const bool block = std::is_same_v<typename TypeParam::Cooperation, Block>;
  EXPECT_GE(nic.opcodes().size(), 3U);
  EXPECT_LE(nic.opcodes().size(), block ? 3 + 3U : 3U) << "each warp of a block has its share";
  for (uint32_t i = 0; i < 100; ++i) ASSERT_EQ(this->to_[i], i + 1);
  EXPECT_EQ(this->to_[100], 0U);
  for (uint32_t i = 0; i < 2; ++i) EXPECT_EQ(this->to_[102 + i], 101 + i);
  for (uint32_t i = 0; i < 6; ++i) EXPECT_EQ(this->to_[104 + i], 104 + i);
}

TYPED_TEST(ListTest, FillsSectorsByAWarpOnly) {
  TestQueue memory(64);
  TestNic nic(memory);
  std::memset(memory.ring.data(), 0xaa, sizeof memory.ring[0] * memory.ring.size());
  const std::vector<ListEntry> one_each = {this->Entry(0, 10, 1), this->Entry(5, 20, 1)};
  const std::vector<ListEntry> joined = {this->Entry(30, 30, 1), this->Entry(31, 31, 1)};
  ASSERT_TRUE(this->Post(memory, nic, one_each).status.ok());
  ASSERT_TRUE(this->Post(memory, nic, joined).status.ok());
  const bool fills = std::is_same_v<typename TypeParam::Cooperation, Warp>;
  for (uint32_t slot = 0; slot < 3; ++slot) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&memory.ring[slot]);
    for (size_t i = 3 * sizeof(mlx5::DataSegment); i < sizeof memory.ring[slot]; ++i)
      EXPECT_EQ(bytes[i], fills ? 0U : 0xaaU) << slot;
  }
}

TYPED_TEST(ListTest, KeepsEntriesOfOtherKeysApart) {
  TestQueue memory(8);
  std::vector<ListEntry> list{this->Entry(0, 0, 1), this->Entry(1, 1, 1), this->Entry(2, 2, 1)};
  list[1].rkey = mlx5::Be32{7};
  list[2].lkey = mlx5::Be32{8};
  TypeParam::Run(ViewFor<typename TypeParam::Sharing>(memory),
                 [&](auto& queue) { EXPECT_EQ(queue.PostList(list.data(), 3).ticket.index, 2U); });
  for (uint32_t i = 0; i < 3; ++i) {
    const RemoteMemory remote{list[i].remote, list[i].rkey};
    const LocalMemory local{list[i].local, list[i].bytes, list[i].lkey};
    EXPECT_EQ(SlotsFrom(memory, i), Golden(WqeOpcode::kRdmaWrite)
                                        .Add(SegmentOf(remote))
                                        .Add(SegmentOf(local))
                                        .Bytes(i, i == 2 ? mlx5::kCqeAlways : mlx5::kCqeOnError));
  }
}

TYPED_TEST(ListTest, SplitsEntriesAndRunsAtTheLongestMessage) {
  TestQueue memory(64);
  TestNic nic(memory);
  memory.max_message = 32;  // 4 words
  std::vector<ListEntry> list{this->Entry(0, 0, 10), this->Entry(20, 20, 1)};
  for (uint32_t i = 0; i < 12; ++i) list.push_back(this->Entry(40 + i, 40 + i, 1));
  const Posted posted = this->Post(memory, nic, list);
  ASSERT_TRUE(posted.status.ok());
  for (uint32_t i = 0; i < 10; ++i) ASSERT_EQ(this->to_[i], i + 1);
  EXPECT_EQ(this->to_[20], 21U);
  for (uint32_t i = 40; i < 52; ++i) ASSERT_EQ(this->to_[i], i + 1);
  EXPECT_GE(nic.opcodes().size(), 3 + 1 + 3U);
  EXPECT_LE(nic.opcodes().size(), 3 + 1 + 4 + 3U)
      << "the words start anywhere; each warp of a block has its share";
  EXPECT_EQ(nic.doorbells(), 1U);
}

TYPED_TEST(ListTest, SkipsEntriesWithoutBytes) {
  TestQueue memory(16);
  TestNic nic(memory);
  std::vector<ListEntry> list(30, this->Entry(5, 5, 0));
  list[7] = this->Entry(7, 7, 1);
  list[29] = this->Entry(29, 29, 1);
  ASSERT_TRUE(this->Post(memory, nic, list).status.ok());
  EXPECT_THAT(nic.opcodes(), testing::ElementsAre(WqeOpcode::kRdmaWrite, WqeOpcode::kRdmaWrite));
  EXPECT_EQ(this->to_[7], 8U);
  EXPECT_EQ(this->to_[29], 30U);
}

TYPED_TEST(ListTest, PostsANopForAListWithoutBytes) {
  for (const uint32_t count : {0U, 1U, 40U}) {
    SCOPED_TRACE(count);
    TestQueue memory(16);
    TestNic nic(memory);
    const Posted posted = this->Post(memory, nic, std::vector<ListEntry>(count, this->Entry(5, 5, 0)));
    ASSERT_TRUE(posted.status.ok());
    EXPECT_THAT(nic.opcodes(), testing::ElementsAre(WqeOpcode::kNop));
    EXPECT_TRUE((SendQueue<Cpu, typename TypeParam::Sharing>(ViewFor<typename TypeParam::Sharing>(memory))
                     .Test(posted.ticket)
                     .ok()));
  }
}

TYPED_TEST(ListTest, RefusesAListThatTheQueueCannotHold) {
  TestQueue memory(16);
  TestNic nic(memory);
  std::vector<ListEntry> list;
  for (uint32_t i = 0; i < 17; ++i) list.push_back(this->Entry(2 * i, i, 1));
  const auto expect_refused = [&](const std::vector<ListEntry>& refused) {
    const Posted posted = this->Post(memory, nic, refused);
    EXPECT_EQ(posted.status.code, Code::kInvalid);
    EXPECT_EQ(posted.status.request_error, RequestError::kTooManySlots);
    EXPECT_EQ(EndFor<typename TypeParam::Sharing>(memory), 0U);
  };
  expect_refused(list);
  list.resize(1);
  list[0].bytes = uint64_t{17} << 30;
  expect_refused(list);
  list[0].bytes = ~uint64_t{0};
  expect_refused(list);
  expect_refused(std::vector<ListEntry>(100, list[0]));
  // An entry that wraps around the address space must not hide in a run.
  list[0] = {0x1000, 0x1000, 0 - uint64_t{8}, kTestKey, kTestKey};
  list.push_back({0x1000 - 8, 0x1000 - 8, 16, kTestKey, kTestKey});
  expect_refused(list);
  list.assign(1, this->Entry(0, 0, 1));
  EXPECT_TRUE(this->Post(memory, nic, list).status.ok()) << "the queue works on";
}

TYPED_TEST(ListTest, SplitsAnEntryOfMoreThanTwoGigabytes) {
  TestQueue memory(8);
  const ListEntry entry{0x10000, 0x20000, (uint64_t{2} << 30) + 5, kTestKey, kTestKey};
  TypeParam::Run(ViewFor<typename TypeParam::Sharing>(memory),
                 [&](auto& queue) { EXPECT_EQ(queue.PostList(&entry, 1).ticket.index, 2U); });
  const RemoteMemory remote{entry.remote + (uint64_t{2} << 30), kTestKey};
  const LocalMemory local{entry.local + (uint64_t{2} << 30), 5, kTestKey};
  EXPECT_EQ(SlotsFrom(memory, 2),
            Golden(WqeOpcode::kRdmaWrite).Add(SegmentOf(remote)).Add(SegmentOf(local)).Bytes(2));
}

TYPED_TEST(ListTest, PostsNothingWhenTheQueueIsFull) {
  TestQueue memory(8);
  TestNic nic(memory);
  std::vector<ListEntry> list;
  for (uint32_t i = 0; i < 5; ++i) list.push_back(this->Entry(2 * i, i, 1));
  TypeParam::Run(ViewFor<typename TypeParam::Sharing>(memory), [&](auto& queue) {
    EXPECT_TRUE(queue.PostList(list.data(), 5).status.ok());
    EXPECT_EQ(queue.PostList(list.data(), 5).status.code, Code::kFull);
    EXPECT_TRUE(queue.PostList(list.data(), 3).status.ok());
  });
  while (nic.Step()) {
  }
  EXPECT_EQ(nic.violation(), "");
  EXPECT_EQ(nic.next(), 8U);
  EXPECT_EQ(nic.doorbells(), 1U) << "the NIC sees the last one only";
}

TYPED_TEST(ListTest, ContinuesOverManyRounds) {
  constexpr uint32_t kRounds = 6, kCount = 13;
  TestQueue memory(32, 0U - 40);
  TestNic nic(memory, 0U - 40);
  NicThread thread(nic);
  std::vector<ListEntry> list;
  for (uint32_t i = 0; i < kCount; ++i) list.push_back(this->Entry(3 * i, 2 * i, 1));
  TypeParam::Run(ViewFor<typename TypeParam::Sharing>(memory), [&](auto& queue) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      const Posted posted = queue.PostList(list.data(), kCount, Soon());
      ASSERT_TRUE(posted.status.ok());
      ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
    }
  });
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
  EXPECT_EQ(nic.next(), 0U - 40 + kRounds * kCount);
  for (uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(this->to_[2 * i], 3 * i + 1);
}

TEST(SharedLists, KeepThePostsOfManyThreadsApart) {
  constexpr uint32_t kThreads = 4, kRounds = 25, kCount = 7;
  TestQueue memory(16, 0U - 900);
  TestNic nic(memory, 0U - 900);
  NicThread thread(nic);
  std::vector<std::vector<uint32_t>> from(kThreads, std::vector<uint32_t>(2 * kCount)), to = from;
  Together(kThreads, [&](uint32_t me) {
    SendQueue<Cpu, Shared> queue(memory.View());
    for (uint32_t round = 0; round < kRounds; ++round) {
      std::vector<ListEntry> list;
      for (uint32_t i = 0; i < 2 * kCount; i += 2) {
        from[me][i] = round * 1000 + me * 100 + i;
        list.push_back({reinterpret_cast<uint64_t>(&from[me][i]), reinterpret_cast<uint64_t>(&to[me][i]), 4,
                        kTestKey, kTestKey});
      }
      const Posted posted = queue.PostList(list.data(), kCount, Soon());
      ASSERT_TRUE(posted.status.ok());
      ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
      ASSERT_EQ(from[me], to[me]);
    }
  });
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
}

class GatherTest : public testing::Test {
 protected:
  static constexpr uint32_t kIndex = 0x1'23fe, kDepth = 32;
  static constexpr RemoteMemory kRemote{0x1122'3344'5566'7788, mlx5::ToBe32(0xaabbccdd)};
  static constexpr mlx5::Be32 kImm{0x04030201};

  /// Entries of many lengths, some of them 0.
  static std::vector<LocalMemory> Entries(uint32_t count) {
    std::vector<LocalMemory> entries;
    for (uint32_t i = 0; i < count; ++i)
      entries.push_back({0x1000 * (i + 1), i % 7 == 3 ? 0 : 100 + i, mlx5::ToBe32(0x900 + i)});
    return entries;
  }

  template <class O>
  std::string Image(const O& operation, uint32_t flags = mlx5::kCqeAlways) {
    const QueueView view = memory_.View();
    const uint32_t slots = operation.Slots(view);
    operation.template Encode<Cpu>(view, kIndex, flags);
    return SlotsFrom(memory_, kIndex, slots);
  }

  /// Returns the slots of a WQE, and of the NOP behind it if there are several.
  static std::string Expected(Golden wqe, const std::vector<LocalMemory>& entries,
                              uint32_t flags = mlx5::kCqeAlways, mlx5::Be32 imm = {}) {
    for (const LocalMemory& entry : entries) {
      if (entry.bytes != 0) wqe.Add(SegmentOf(entry));
    }
    if (wqe.Bytes(kIndex).size() == mlx5::kWqebbBytes) return wqe.Bytes(kIndex, flags, imm);
    const uint32_t silent = flags & ~uint32_t{mlx5::kCompletionMask};
    const auto slots = static_cast<uint32_t>(wqe.Bytes(kIndex).size() / mlx5::kWqebbBytes);
    return wqe.Bytes(kIndex, silent, imm) + Golden(WqeOpcode::kNop).Bytes(kIndex + slots, flags);
  }

  TestQueue memory_{kDepth};
};

TEST_F(GatherTest, WriteHasADataSegmentForEachEntryWithBytes) {
  for (uint32_t count = 0; count <= kMaxGatherEntries; ++count) {
    SCOPED_TRACE(count);
    const auto entries = Entries(count);
    EXPECT_EQ(Image(WriteGather(kRemote, entries.data(), count)),
              Expected(Golden(WqeOpcode::kRdmaWrite).Add(SegmentOf(kRemote)), entries));
    EXPECT_EQ(
        Image(WriteImmGather(kRemote, entries.data(), count, kImm)),
        Expected(Golden(WqeOpcode::kRdmaWriteImm).Add(SegmentOf(kRemote)), entries, mlx5::kCqeAlways, kImm));
  }
}

TEST_F(GatherTest, SendHasADataSegmentForEachEntryWithBytes) {
  constexpr uint32_t kFlags = mlx5::kCqeAlways | mlx5::kSolicited;
  for (uint32_t count = 0; count <= kMaxGatherEntries; ++count) {
    SCOPED_TRACE(count);
    const auto entries = Entries(count);
    EXPECT_EQ(Image(SendGather(entries.data(), count)), Expected(Golden(WqeOpcode::kSend), entries));
    EXPECT_EQ(Image(SendImmGather(entries.data(), count, kImm), kFlags),
              Expected(Golden(WqeOpcode::kSendImm), entries, kFlags, kImm))
        << "the message wakes the peer, also if a NOP follows";
  }
}

TEST_F(GatherTest, TakesUpToEightSlotsAndATrailer) {
  const std::vector<LocalMemory> entries(kMaxGatherEntries, {0x1000, 8, kTestKey});
  const QueueView view = memory_.View();
  EXPECT_EQ(WriteGather(kRemote, entries.data(), 2).Slots(view), 1U);
  EXPECT_EQ(WriteGather(kRemote, entries.data(), 3).Slots(view), 3U);
  EXPECT_EQ(WriteGather(kRemote, entries.data(), 30).Slots(view), 9U);
  EXPECT_EQ(SendGather(entries.data(), 3).Slots(view), 1U);
  EXPECT_EQ(SendGather(entries.data(), 30).Slots(view), 9U);
}

TEST_F(GatherTest, RefusesTooManyEntriesAndTooManyBytes) {
  SendQueue<Cpu, Shared> queue(memory_.View());
  std::vector<LocalMemory> entries(31, {0x1000, 8, kTestKey});
  EXPECT_EQ(queue.Post(SendGather(entries.data(), 31)).status.request_error, RequestError::kTooManySlots);
  entries = {{0x1000, 1 << 30, kTestKey}, {0x2000, 1, kTestKey}};
  EXPECT_EQ(queue.Post(SendGather(entries.data(), 2)).status.request_error, RequestError::kMessageTooLong);
  EXPECT_EQ(queue.Post(WriteGather(kRemote, entries.data(), 2)).status.request_error,
            RequestError::kMessageTooLong);
  entries = {{0x1000, ~uint64_t{0}, kTestKey}, {0x2000, 2, kTestKey}};
  EXPECT_EQ(queue.Post(SendGather(entries.data(), 2)).status.request_error, RequestError::kMessageTooLong);
  EXPECT_EQ(memory_.control.tail, 0U);
}

TEST_F(GatherTest, ArrivesInOneMessageAroundTheEndOfTheQueue) {
  TestQueue memory(16);
  TestNic nic(memory);
  SendQueue<Cpu, Exclusive> queue(memory.View());
  std::string from(300, ' '), to(300, ' ');
  std::iota(from.begin(), from.end(), 1);
  for (uint32_t round = 0; round < 20; ++round) {
    std::vector<LocalMemory> entries;
    std::string expected;
    const uint32_t count = 1 + 7 * round % kMaxGatherEntries;
    for (uint32_t i = 0; i < count; ++i) {
      entries.push_back({reinterpret_cast<uint64_t>(from.data() + 9 * i), 1 + (i + round) % 8, kTestKey});
      expected += from.substr(9 * i, entries.back().bytes);
    }
    const RemoteMemory target{reinterpret_cast<uint64_t>(to.data()), kTestKey};
    const Posted written = queue.Post(WriteGather(target, entries.data(), count));
    ASSERT_TRUE(written.status.ok());
    while (nic.Step()) {
    }
    ASSERT_EQ(nic.violation(), "");
    EXPECT_EQ(to.substr(0, expected.size()), expected);
    EXPECT_TRUE(queue.Test(written.ticket).ok());
    const Posted sent = queue.Post(SendGather(entries.data(), count));
    ASSERT_TRUE(sent.status.ok());
    while (nic.Step()) {
    }
    EXPECT_EQ(nic.sent().back(), expected);
    EXPECT_TRUE(queue.Test(sent.ticket).ok());
  }
}

}  // namespace
}  // namespace warpverbs::device
