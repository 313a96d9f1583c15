// Threads that share a queue. ThreadSanitizer checks these, too.
#include <gtest/gtest.h>

#include <atomic>
#include <utility>
#include <vector>

#include "nic_thread.hpp"
#include "test_nic.hpp"
#include "together.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using mlx5::Syndrome;

struct Load {
  uint32_t threads;
  uint32_t depth;
  uint32_t start;
};

/// Expects that every write arrives and that doorbells reach the NIC in order.
template <class Sharing>
void WriteTogether(const Load& load) {
  constexpr uint32_t kPuts = 3000;
  const auto [threads, depth, start] = load;
  TestQueue memory(depth, start);
  TestNic nic(memory, start);
  NicThread nic_thread(nic);
  std::vector<std::vector<uint32_t>> to(threads, std::vector<uint32_t>(kPuts));
  Together(threads, [&](uint32_t thread) {
    SendQueue<Cpu, Sharing> queue(ViewFor<Sharing>(memory));
    std::vector<uint32_t> from(kPuts);
    for (uint32_t i = 0; i < kPuts; ++i) {
      from[i] = thread * kPuts + i + 1;
      const Posted posted = queue.Post(Write(Remote(to[thread][i]), Local(from[i])), Soon());
      ASSERT_TRUE(posted.status.ok()) << i;
      if (i % 16 != 0) continue;
      ASSERT_TRUE(queue.Wait(posted.ticket, Soon()).ok()) << i;
      ASSERT_EQ(to[thread][i], from[i]);  // a race unless the completion orders it
    }
    ASSERT_TRUE(queue.Flush(Soon()).ok());
    EXPECT_EQ(to[thread], from);
  });
  nic_thread.Stop();
  EXPECT_EQ(nic.violation(), "");
  const uint32_t end = start + threads * kPuts;
  EXPECT_EQ(nic.next(), end);
  EXPECT_EQ(EndFor<Sharing>(memory), uint64_t{end} << 32 | end);
}

class SharedQueueUnderLoad : public testing::TestWithParam<Load> {};

TEST_P(SharedQueueUnderLoad, CompletesAllWritesAndRingsInOrder) { WriteTogether<Shared>(GetParam()); }
TEST_P(SharedQueueUnderLoad, CompletesAllWritesAndRingsInOrderWhenRelaxed) {
  WriteTogether<RelaxedShared>(GetParam());
}
TEST_P(SharedQueueUnderLoad, CompletesAllWritesAndRingsInOrderWhenContended) {
  WriteTogether<Contended>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(, SharedQueueUnderLoad,
                         testing::Values(Load{2, 1, 0}, Load{2, 4, 0}, Load{4, 4, 0U - 1000}, Load{4, 64, 0},
                                         Load{4, 64, 0U - 4000}, Load{2, 32768, 0}),
                         [](const auto& instance) {
                           const Load& load = instance.param;
                           return std::to_string(load.threads) + "ThreadsDepth" + std::to_string(load.depth) +
                                  "From" + std::to_string(load.start);
                         });

TEST(SharedQueue, GivesEachOfTheLastSlotsToOnePoster) {
  constexpr uint32_t kDepth = 64;
  for (int round = 0; round < 20; ++round) {
    TestQueue memory(kDepth);
    uint64_t data = 0;
    std::atomic<uint32_t> posted = 0;
    Together(4, [&](uint32_t) {
      SendQueue<Cpu, Shared> queue(memory.View());
      Status status;
      while ((status = queue.Post(Write(Remote(data), Local(data))).status).ok()) ++posted;
      EXPECT_EQ(status.code, Code::kFull);
    });
    ASSERT_EQ(posted, kDepth);
    ASSERT_EQ(memory.control.tail, uint64_t{kDepth} << 32 | kDepth);
    ASSERT_EQ(memory.control.error, 0U);
  }
}

TEST(SharedQueue, EndsEveryThreadAfterAFailure) {
  for (const uint32_t failed : {0, 1, 50, 1000}) {
    SCOPED_TRACE(failed);
    TestQueue memory(16);
    TestNic nic(memory);
    nic.FailAt(failed, Syndrome::kRemoteAccess);
    NicThread nic_thread(nic);
    Together(4, [&](uint32_t) {
      SendQueue<Cpu, Shared> queue(memory.View());
      uint64_t from = 1;
      uint64_t to = 0;
      Posted posted{};
      while (posted.status.ok()) posted = queue.Post(Write(Remote(to), Local(from)), Soon());
      EXPECT_EQ(posted.status.code, Code::kError);
      const Status lasting = queue.Post(Write(Remote(to), Local(from)), Soon()).status;
      EXPECT_EQ(lasting.code, Code::kError);
      EXPECT_NE(lasting.syndrome, 0);
      EXPECT_TRUE(queue.Flush(Soon()).code == Code::kError);
    });
    nic_thread.Stop();
    EXPECT_EQ(nic.violation(), "");
    EXPECT_NE(memory.control.error & kErrorValid, 0U);
  }
}

TEST(SharedQueue, WorksBesideLaterPosters) {
  TestQueue memory(4);
  TestNic nic(memory);
  uint64_t data = 0;
  SendQueue<Cpu, Shared> first(memory.View());
  SendQueue<Cpu, Shared> second(memory.View());
  for (int i = 0; i < 30; ++i) {
    SendQueue<Cpu, Shared>& queue = i % 3 == 0 ? first : second;
    const Posted posted = queue.Post(Write(Remote(data), Local(data)));
    ASSERT_TRUE(posted.status.ok()) << i;
    ASSERT_EQ(posted.ticket.index, static_cast<uint32_t>(i));
    ASSERT_TRUE(nic.Step());
    ASSERT_TRUE(first.Test(posted.ticket).ok() && second.Test(posted.ticket).ok()) << i;
  }
  EXPECT_EQ(nic.violation(), "");
}

/// A processor on which others post and complete WQEs between the loads of the tail and of the CQE.
struct OvertakenCpu : Cpu {
  static inline TestQueue* queue = nullptr;

  static arch::CqeTail LoadCqeTail(const uint8_t* tail) {
    if (TestQueue* const overtaken = std::exchange(queue, nullptr)) {
      overtaken->control.tail = uint64_t{5} << 32 | 5;
      WriteCqe(overtaken->cqe, {.wqe_counter = 4});
    }
    return Cpu::LoadCqeTail(tail);
  }
};

TEST(SharedQueue, IsNotFullWhenOthersHavePostedAndCompletedMeanwhile) {
  TestQueue memory(4);
  memory.control.tail = uint64_t{4} << 32 | 4;
  WriteCqe(memory.cqe, {.wqe_counter = 3});
  uint64_t data = 0;
  SendQueue<OvertakenCpu, Shared> queue(memory.View());
  OvertakenCpu::queue = &memory;
  const Posted posted = queue.Post(Write(Remote(data), Local(data)));
  EXPECT_TRUE(posted.status.ok());
  EXPECT_EQ(posted.ticket.index, 5u);
}

TEST(SharedQueue, KeepsATicketDoneHoweverFarOthersPost) {
  TestQueue memory(64);
  TestNic nic(memory);
  uint64_t data = 0;
  SendQueue<Cpu, Shared> idle(memory.View());
  SendQueue<Cpu, Shared> busy(memory.View());
  const Posted posted = idle.Post(Write(Remote(data), Local(data)));
  for (int i = 0; i < 200'000; ++i) {
    ASSERT_TRUE(busy.Post(Write(Remote(data), Local(data))).status.ok()) << i;
    while (nic.Step()) {
    }
    ASSERT_TRUE(idle.Test(posted.ticket).ok()) << i;
  }
}

TEST(SharedQueue, ShowsNewTicketsAsPendingToAnIdlePoster) {
  TestQueue memory(64);
  TestNic nic(memory);
  uint64_t data = 0;
  SendQueue<Cpu, Shared> idle(memory.View());
  SendQueue<Cpu, Shared> busy(memory.View());
  for (int i = 0; i < 100'000; ++i) {
    const Posted posted = busy.Post(Write(Remote(data), Local(data)));
    ASSERT_EQ(idle.Test(posted.ticket).code, Code::kPending) << i;
    ASSERT_TRUE(nic.Step());
  }
}

}  // namespace
}  // namespace warpverbs::device
