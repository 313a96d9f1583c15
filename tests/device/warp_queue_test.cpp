// Posts of a warp's lanes in one call.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "nic_thread.hpp"
#include "together.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using arch::LaneMask;
using arch::cpu::RunBlock;

constexpr uint32_t kLanes = 8;
constexpr LaneMask kAll = 0xff;

void StepAll(TestNic& nic) {
  while (nic.Step()) {
  }
  EXPECT_EQ(nic.violation(), "");
}

template <class Sharing>
class WarpQueue : public testing::Test {
 protected:
  using Queue = SendQueue<Cpu, Sharing, Warp>;

  uint64_t from_[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8};
  uint64_t to_[kLanes] = {};
};

using Sharings = testing::Types<Exclusive, Shared, Contended>;
TYPED_TEST_SUITE(WarpQueue, Sharings);

TYPED_TEST(WarpQueue, PostsForAllLanesByOneDoorbell) {
  for (const LaneMask mask : {0xff, 0x01, 0x80, 0x10, 0xaa, 0x7e}) {
    SCOPED_TRACE(mask);
    TestQueue memory(64, 0U - 3);
    TestNic nic(memory, 0U - 3);
    Ticket tickets[kLanes];
    std::fill(std::begin(this->to_), std::end(this->to_), 0);
    RunLanes(mask, [&](uint32_t lane) {
      typename TestFixture::Queue queue(ViewFor<TypeParam>(memory), Warp(mask));
      const Posted posted = queue.Post(Write(Remote(this->to_[lane]), Local(this->from_[lane])));
      EXPECT_TRUE(posted.status.ok());
      tickets[lane] = posted.ticket;
    });
    StepAll(nic);
    EXPECT_EQ(nic.doorbells(), 1U);
    uint32_t next = 0U - 3;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const bool posts = (mask >> lane & 1) != 0;
      EXPECT_EQ(this->to_[lane], posts ? this->from_[lane] : 0) << lane;
      if (posts) {
        EXPECT_EQ(tickets[lane].index, next++) << "slots in the order of ranks";
      }
    }
    EXPECT_EQ(EndFor<TypeParam>(memory), uint64_t{next} << 32 | next);
  }
}

TYPED_TEST(WarpQueue, FlushesByAnyLaneWhatAllLanesHavePosted) {
  for (int round = 0; round < 20; ++round) {
    TestQueue memory(64);  // nothing completes
    RunLanes(kAll, [&](uint32_t lane) {
      typename TestFixture::Queue queue(ViewFor<TypeParam>(memory), Warp(kAll));
      ASSERT_TRUE(queue.Post(Write(Remote(this->to_[lane]), Local(this->from_[lane]))).status.ok());
      if (lane == 0) {  // the last lane has rung the doorbell
        EXPECT_EQ(queue.Flush(InAMillisecond()).code, Code::kTimeout) << round;
      }
    });
  }
}

TYPED_TEST(WarpQueue, FillsTheSectorBehindAnOddNumberOfSegments) {
  TestQueue memory(64);
  std::memset(memory.ring.data(), 0xaa, sizeof memory.ring[0] * memory.ring.size());
  RunLanes(kAll, [&](uint32_t lane) {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory), Warp(kAll));
    // Posts fill sectors once the queue knows that slots are free.
    ASSERT_TRUE(queue.Post(Nop()).status.ok());
    ASSERT_TRUE(queue.Post(Send(Local(this->from_[lane]))).status.ok());
    ASSERT_TRUE(queue.Post(Write(Remote(this->to_[lane]), Local(this->from_[lane]))).status.ok());
  });
  const auto byte_at = [&](uint32_t slot, size_t offset) {
    return uint32_t{reinterpret_cast<const uint8_t*>(&memory.ring[slot])[offset]};
  };
  for (size_t i = 0; i < sizeof(mlx5::DataSegment); ++i) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      EXPECT_EQ(byte_at(kLanes + lane, 2 * sizeof(mlx5::DataSegment) + i), 0xaaU) << "behind two of a send";
      EXPECT_EQ(byte_at(2 * kLanes + lane, 3 * sizeof(mlx5::DataSegment) + i), 0U)
          << "behind three of a write";
    }
  }
}

TYPED_TEST(WarpQueue, ContinuesOverManyRounds) {
  constexpr uint32_t kRounds = 40;
  TestQueue memory(16, 0U - 100);
  TestNic nic(memory, 0U - 100);
  NicThread thread(nic);
  std::vector<uint32_t> from(kRounds * kLanes), to(kRounds * kLanes);
  RunLanes(kAll, [&](uint32_t lane) {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory), Warp(kAll));
    for (uint32_t i = lane; i < from.size(); i += kLanes) {
      from[i] = i + 1;
      const Posted posted = queue.Post(Write(Remote(to[i]), Local(from[i])), Soon());
      ASSERT_TRUE(posted.status.ok());
      ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
      ASSERT_EQ(to[i], i + 1);
    }
  });
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
  EXPECT_EQ(from, to);
  EXPECT_EQ(static_cast<uint32_t>(EndFor<TypeParam>(memory)), kRounds * kLanes - 100);
}

TYPED_TEST(WarpQueue, PostsLaneByLaneWhenTheirSlotsDiffer) {
  TestQueue memory(32);
  memory.max_message = 8;
  TestNic nic(memory);
  uint64_t from[kLanes][3], to[kLanes][3] = {};
  RunLanes(kAll, [&](uint32_t lane) {
    for (uint64_t& word : from[lane]) word = lane + 1;
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory), Warp(kAll));
    const LocalMemory local{reinterpret_cast<uint64_t>(from[lane]), 8 * (lane % 3 + 1), kTestKey};
    for (int round = 0; round < 2; ++round) {
      const Posted posted = queue.Post(round == 0 ? Write(Remote(to[lane]), local)
                                                  : Write(Remote(this->to_[lane]), Local(this->from_[lane])));
      EXPECT_TRUE(posted.status.ok());
    }
  });
  StepAll(nic);
  EXPECT_EQ(nic.next(), 15 + kLanes);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(to[lane][i], i <= lane % 3 ? lane + 1 : 0);
    EXPECT_EQ(this->to_[lane], this->from_[lane]) << "the uniform post after the mixed one";
  }
}

TYPED_TEST(WarpQueue, WorksWithFewerSlotsThanLanes) {
  for (const uint32_t depth : {1, 2, 4}) {
    SCOPED_TRACE(depth);
    TestQueue memory(depth);
    TestNic nic(memory);
    NicThread thread(nic);
    std::fill(std::begin(this->to_), std::end(this->to_), 0);
    RunLanes(kAll, [&](uint32_t lane) {
      typename TestFixture::Queue queue(ViewFor<TypeParam>(memory), Warp(kAll));
      for (int round = 0; round < 3; ++round) {
        const Posted posted = queue.Post(Write(Remote(this->to_[lane]), Local(this->from_[lane])), Soon());
        ASSERT_TRUE(posted.status.ok());
        ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
        ASSERT_EQ(this->to_[lane], this->from_[lane]);
      }
    });
    thread.Stop();
    EXPECT_EQ(nic.violation(), "");
    EXPECT_EQ(nic.next(), 3 * kLanes);
  }
}

TYPED_TEST(WarpQueue, RefusesOnlyTheLaneWithAnInvalidRequest) {
  TestQueue memory(16);
  TestNic nic(memory);
  RunLanes(kAll, [&](uint32_t lane) {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory), Warp(kAll));
    LocalMemory local = Local(this->from_[lane]);
    if (lane == 3) local.bytes = uint64_t{1} << 40;
    const Posted posted = queue.Post(Write(Remote(this->to_[lane]), local));
    EXPECT_EQ(posted.status.code, lane == 3 ? Code::kInvalid : Code::kOk) << lane;
    EXPECT_EQ(posted.status.request_error, lane == 3 ? RequestError::kTooManySlots : RequestError::kNone);
  });
  StepAll(nic);
  EXPECT_EQ(nic.next(), kLanes - 1);
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    EXPECT_EQ(this->to_[lane], lane == 3 ? 0 : this->from_[lane]);
}

TYPED_TEST(WarpQueue, RefusesAllLanesWhenFull) {
  TestQueue memory(8);
  TestNic nic(memory);
  RunLanes(kAll, [&](uint32_t lane) {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory), Warp(kAll));
    const auto write = Write(Remote(this->to_[lane]), Local(this->from_[lane]));
    EXPECT_TRUE(queue.Post(write).status.ok());
    EXPECT_EQ(queue.Post(write).status.code, Code::kFull);
    EXPECT_EQ(queue.Post(write, InAMillisecond()).status.code, Code::kTimeout);
  });
  EXPECT_EQ(memory.dbrec, mlx5::ToBe32(8).raw);
}

TYPED_TEST(WarpQueue, ReportsAnErrorToAllLanes) {
  TestQueue memory(8);
  TestNic nic(memory);
  nic.FailAt(0, mlx5::Syndrome::kRemoteAccess);
  RunLanes(kAll, [&](uint32_t lane) {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory), Warp(kAll));
    const auto write = Write(Remote(this->to_[lane]), Local(this->from_[lane]));
    EXPECT_TRUE(queue.Post(write).status.ok());
    Cpu::SyncLanes(kAll);  // the leader may ring after the others have their tickets
    EXPECT_TRUE(lane != 0 || nic.Step());
    Cpu::SyncLanes(kAll);
    const Status status = queue.Post(write, Soon()).status;
    EXPECT_EQ(status.code, Code::kError);
    EXPECT_EQ(status.syndrome, static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess));
  });
}

TYPED_TEST(WarpQueue, GivesEachLaneOfABatchItsOwnSlots) {
  TestQueue memory(32);
  TestNic nic(memory);
  uint64_t counts[kLanes] = {};
  RunLanes(kAll, [&](uint32_t lane) {
    typename TestFixture::Queue queue(ViewFor<TypeParam>(memory), Warp(kAll));
    auto batch = queue.Begin(3);
    ASSERT_TRUE(batch.status().ok());
    EXPECT_EQ(batch.Add(Write(Remote(this->to_[lane]), Local(this->from_[lane]))).ticket.index, 3 * lane);
    EXPECT_EQ(batch.Add(FetchAdd(Remote(counts[lane]), uint64_t{5})).ticket.index, 3 * lane + 1);
    EXPECT_TRUE(lane % 2 != 0 || batch.Add(Nop()).status.ok());
    EXPECT_EQ(batch.Submit().ticket.index, 3 * lane + 2);
  });
  StepAll(nic);
  EXPECT_EQ(nic.doorbells(), 1U);
  EXPECT_EQ(nic.next(), 3 * kLanes);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    EXPECT_EQ(this->to_[lane], this->from_[lane]);
    EXPECT_EQ(counts[lane], 5U);
  }
}

TEST(WarpsOfAGrid, ShareAQueueByDisjointMasks) {
  constexpr uint32_t kThreads = 16, kRounds = 30;
  TestQueue memory(16);
  TestNic nic(memory);
  NicThread thread(nic);
  std::vector<uint32_t> from(kThreads * kRounds), to(kThreads * kRounds);
  RunBlock(
      kThreads,
      [&](uint32_t me) {
        const LaneMask half = me % kLanes < 3 ? 0b00000111 : 0b11111000;
        SendQueue<Cpu, Shared, Warp> queue(memory.View(), Warp(half));
        for (uint32_t i = me; i < from.size(); i += kThreads) {
          from[i] = i + 1;
          const Posted posted = queue.Post(Write(Remote(to[i]), Local(from[i])), Soon());
          ASSERT_TRUE(posted.status.ok());
          ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
        }
      },
      kLanes);
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
  EXPECT_EQ(from, to);
}

/// A processor whose lanes run in lockstep: a lane cannot wait for the doorbell of another.
struct LockstepCpu : Cpu {
  static constexpr bool kLockstep = true;
  static LaneMask ActiveLanes() { return kAll; }
};

TEST(LockstepLanes, PostOneByOneToASharedQueue) {
  TestQueue memory(4);
  TestNic nic(memory);
  NicThread thread(nic);
  uint64_t from[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8}, to[kLanes] = {};
  Ticket tickets[kLanes];
  RunLanes(kAll, [&](uint32_t lane) {
    SendQueue<LockstepCpu, Shared> queue(memory.View());
    const Posted posted = queue.Post(Write(Remote(to[lane]), Local(from[lane])), Soon());
    ASSERT_TRUE(posted.status.ok());
    ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok());
    EXPECT_EQ(to[lane], from[lane]);
    tickets[lane] = posted.ticket;
  });
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
  uint32_t slots = 0;
  for (const Ticket ticket : tickets) slots |= 1U << ticket.index;
  EXPECT_EQ(slots, 0xffU) << "one slot for each lane";
}

/// Two lanes post behind a slot that another poster has reserved but not written. The second lane's request
/// is invalid.
TEST(WarpQueue, WaitsForPredecessorsWhenLanesPostOneByOne) {
  TestQueue memory(16);
  memory.max_message = 4096;
  uint64_t data = 0, abort = 1;
  SendQueue<Cpu, Shared> other(memory.View());
  auto unwritten = other.Begin(1);
  RunLanes(0b11, [&](uint32_t lane) {
    SendQueue<Cpu, Shared, Warp> queue(memory.View(), Warp(0b11));
    EXPECT_EQ(queue.Test({0}).code, Code::kPending) << "it loaded the reservation and the free slots";
    const auto post = [&] {
      LocalMemory local = Local(data);
      if (lane == 1) local.bytes = 1 << 20;
      return queue.Post(Send(local), {.abort = &abort}).status.code;
    };
    EXPECT_EQ(post(), lane == 0 ? Code::kError : Code::kInvalid)
        << "giving up the wait for predecessors ends the queue";
    EXPECT_EQ(post(), lane == 0 ? Code::kError : Code::kInvalid);
  });
  EXPECT_EQ(memory.dbrec, 0U) << "no doorbell covers an unwritten slot";
  EXPECT_EQ(static_cast<uint32_t>(memory.control.tail), 0U);
}

TEST(WarpQueue, RingsForNoLaneAfterTheWarpFailed) {
  TestQueue memory(16);
  memory.max_message = 4096;
  uint64_t data = 0, abort = 1;
  SendQueue<Cpu, Shared> other(memory.View());
  auto unwritten = other.Begin(1);
  RunLanes(0b11, [&](uint32_t lane) {
    SendQueue<Cpu, Shared, Warp> queue(memory.View(), Warp(0b11));
    EXPECT_EQ(queue.Test({0}).code, Code::kPending);
    EXPECT_EQ(queue.Post(Write(Remote(data), Local(data)), {.abort = &abort}).status.code, Code::kError);
    LocalMemory local = Local(data);
    if (lane == 1) local.bytes = 1 << 20;
    EXPECT_EQ(queue.Post(Send(local)).status.code, lane == 0 ? Code::kError : Code::kInvalid);
  });
  EXPECT_EQ(memory.dbrec, 0U);
  EXPECT_EQ(static_cast<uint32_t>(memory.control.tail), 0U);
}

template <class Sharing>
struct WarpErrors : testing::Test {};
using Sharers = testing::Types<Exclusive, Shared, Contended>;
TYPED_TEST_SUITE(WarpErrors, Sharers);

TYPED_TEST(WarpErrors, ReachAllLanesOnceOneLaneHasSeenThem) {
  TestQueue memory(16);
  uint64_t data = 0;
  RunLanes(0b11, [&](uint32_t lane) {
    SendQueue<Cpu, TypeParam, Warp> queue(ViewFor<TypeParam>(memory), Warp(0b11));
    const Posted posted = queue.Post(Write(Remote(data), Local(data)));
    EXPECT_TRUE(posted.status.ok());
    Cpu::SyncLanes(0b11);
    if (lane == 0) {
      memory.Complete({mlx5::CqeOpcode::kRequesterError, 0, mlx5::Syndrome::kRemoteAccess});
      EXPECT_EQ(queue.Wait(posted.ticket, {}).code, Code::kError);
    }
    Cpu::SyncLanes(0b11);
    EXPECT_EQ(queue.Post(Write(Remote(data), Local(data))).status.code, Code::kError);
  });
}

}  // namespace
}  // namespace warpverbs::device
