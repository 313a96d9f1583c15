// Errors of a shared queue: a poster that gives up between reserving and publishing, the ranks of errors, and
// their mirror for the host.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "test_nic.hpp"
#include "together.hpp"
#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using mlx5::Syndrome;

/// A processor whose clock runs 1,000 times as fast: ten seconds pass in ten milliseconds.
struct HastyCpu : arch::Cpu {
  static uint64_t NowNs() { return Cpu::NowNs() * 1000; }
};
using Queue = SendQueue<HastyCpu, Shared>;

class SharedQueueError : public testing::Test {
 protected:
  /// Reserves a slot for a poster that never publishes it.
  void LoseASlot() { memory_.control.tail += uint64_t{1} << 32; }
  Posted Post(Queue& queue, const WaitLimit& limit = {}) {
    return queue.Post(Write(Remote(to_), Local(from_)), limit);
  }

  uint64_t from_ = 1, to_ = 0;
  TestQueue memory_{8};
  TestNic nic_{memory_};
  Queue queue_{memory_.View()};
  Queue other_{memory_.View()};
};

void ExpectGivenUp(const Status& status) {
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(status.syndrome, 0);
}

TEST_F(SharedQueueError, EndsTheQueueAfterAPosterDiedWithASlot) {
  const Posted before = Post(queue_);
  ASSERT_TRUE(before.status.ok());
  LoseASlot();

  const Posted behind = Post(queue_);
  ExpectGivenUp(behind.status);
  EXPECT_EQ(behind.status.wqe_index, 2);
  ExpectGivenUp(Post(queue_).status);
  ExpectGivenUp(Post(other_).status);
  ExpectGivenUp(Post(other_, Soon()).status);
  EXPECT_EQ(memory_.host_error, memory_.control.error) << "the host's mirror has the error";
  EXPECT_EQ(memory_.control.error, kErrorValid | 2);

  ASSERT_TRUE(nic_.Step());
  EXPECT_TRUE(queue_.Test(before.ticket).ok()) << "the doorbell before the gap still counts";
  EXPECT_FALSE(nic_.Step()) << "no doorbell covers a slot behind the gap";
}

TEST_F(SharedQueueError, EndsTheQueueWhenAWaitForPredecessorsIsAborted) {
  LoseASlot();
  const uint64_t abort = 1;
  ExpectGivenUp(Post(queue_, {.deadline_ns = UINT64_MAX, .abort = &abort}).status);
  ExpectGivenUp(Post(other_).status);
}

/// A processor whose clock moves by `step` with each read, after a hook.
struct SteppingCpu : arch::Cpu {
  static inline uint64_t now, step;
  static inline uint32_t reads;
  static inline std::function<void()> hook;
  static uint64_t NowNs() {
    ++reads;
    if (hook) hook();
    return now += step;
  }
  static void Start(uint64_t step_ns, std::function<void()> on_read = {}) {
    now = 1;
    reads = 0;
    step = step_ns;
    hook = std::move(on_read);
  }
};
constexpr uint64_t kSecond = 1'000'000'000;

TEST_F(SharedQueueError, DoesNotBlameAPredecessorForTimeWhenTheProgramWasStopped) {
  auto batch = other_.Begin(1);
  SendQueue<SteppingCpu, Shared> behind(memory_.View());
  SteppingCpu::Start(1000, [&] {
    SteppingCpu::step = SteppingCpu::reads % 10 == 2 ? 3600 * kSecond : 1000;  // stopped again and again
    if (SteppingCpu::reads == 50) {
      EXPECT_TRUE(batch.Submit().status.ok());
    }
  });
  EXPECT_TRUE(behind.Post(Nop()).status.ok());
  SteppingCpu::hook = nullptr;
  EXPECT_EQ(memory_.control.error, 0U);
}

TEST_F(SharedQueueError, EndsAWaitForPredecessorsAfterTenSecondsOfItsOwn) {
  for (const uint64_t step : {kSecond / 20, kSecond, 3600 * kSecond}) {
    SCOPED_TRACE(step);
    TestQueue memory(8);
    memory.control.tail = uint64_t{1} << 32;  // reserved by a poster that never publishes
    SendQueue<SteppingCpu, Shared> behind(memory.View());
    SteppingCpu::Start(step);
    ExpectGivenUp(behind.Post(Nop()).status);
    EXPECT_EQ(SteppingCpu::reads, step < kSecond ? 201U : 101U);
  }
}

TEST_F(SharedQueueError, LooksForItsPredecessorOnceMoreBeforeItGivesUp) {
  auto batch = other_.Begin(1);
  SendQueue<SteppingCpu, Shared> behind(memory_.View());
  SteppingCpu::Start(kSecond / 20, [&] {
    if (SteppingCpu::reads == 201) {
      EXPECT_TRUE(batch.Submit().status.ok());
    }
  });
  EXPECT_TRUE(behind.Post(Nop()).status.ok());
  SteppingCpu::hook = nullptr;
  EXPECT_EQ(memory_.control.error, 0U);
}

/// A processor whose clock stands still, so that no wait times out.
struct StoppedCpu : arch::Cpu {
  static uint64_t NowNs() { return 1; }
};

TEST_F(SharedQueueError, EndsTheWaitForPredecessors) {
  LoseASlot();
  SendQueue<StoppedCpu, Shared> queue(memory_.View());
  auto batch = queue.Begin(1);
  memory_.control.error = kErrorValid | uint64_t{0x13} << 24 | 5;
  const Status status = batch.Submit().status;
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(status.syndrome, 0x13);
}

TEST_F(SharedQueueError, LetsTheNextBatchPublishButNoneBehindAPosterThatGaveUp) {
  auto batch = other_.Begin(1);
  ExpectGivenUp(Post(queue_).status);
  ASSERT_TRUE(batch.Submit().status.ok()) << "it was next to publish";
  auto behind = other_.Begin(1, Soon());
  ExpectGivenUp(behind.Submit().status);
}

TEST_F(SharedQueueError, IsReplacedByAnErrorOfTheNic) {
  const Posted before = Post(queue_);
  LoseASlot();
  ExpectGivenUp(Post(queue_).status);
  nic_.FailAt(0, Syndrome::kRemoteAccess);
  ASSERT_TRUE(nic_.Step());
  const Status status = queue_.Test(before.ticket);
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(status.syndrome, static_cast<uint8_t>(Syndrome::kRemoteAccess));
  EXPECT_EQ(memory_.control.error >> 24 & 0xff, 0x13U) << "the NIC's error replaces giving up";
  EXPECT_EQ(memory_.host_error, memory_.control.error);
}

TEST_F(SharedQueueError, RanksACauseAboveAFlushAboveGivingUp) {
  const Posted before = Post(queue_);
  LoseASlot();
  ExpectGivenUp(Post(queue_).status);
  bool cause_seen = false;
  for (const Syndrome syndrome : {Syndrome::kFlushed, Syndrome::kRemoteAccess, Syndrome::kFlushed}) {
    memory_.Complete({mlx5::CqeOpcode::kRequesterError, 0, syndrome});
    EXPECT_EQ(queue_.Test(before.ticket).code, Code::kError);
    const auto kept = std::exchange(cause_seen, cause_seen || syndrome == Syndrome::kRemoteAccess)
                          ? Syndrome::kRemoteAccess
                          : syndrome;
    EXPECT_EQ(memory_.control.error >> 24 & 0xff, static_cast<uint8_t>(kept));
    EXPECT_EQ(memory_.host_error, memory_.control.error);
  }
}

/// A processor on which another poster records a flush after this one has read the cause and before it
/// records it.
struct OvertakenCpu : arch::Cpu {
  static inline QueueControl* control = nullptr;
  static uint64_t CompareSwap(uint64_t* word, uint64_t expected, uint64_t desired) {
    if (control != nullptr && word == &control->error && *word == 0)
      *word = control->host_error[0] = kErrorValid | uint64_t{0x05} << 24 | 2;
    return Cpu::CompareSwap(word, expected, desired);
  }
};

TEST_F(SharedQueueError, KeepsACauseThatLostTheRaceToAFlush) {
  SendQueue<OvertakenCpu, Shared> queue(memory_.View());
  const Ticket done = queue.Post(Nop()).ticket, failed = queue.Post(Nop()).ticket;
  OvertakenCpu::control = &memory_.control;
  memory_.Complete({mlx5::CqeOpcode::kRequesterError, 1, Syndrome::kRemoteAccess});
  EXPECT_EQ(queue.Test(failed).syndrome, static_cast<uint8_t>(Syndrome::kRemoteAccess));
  OvertakenCpu::control = nullptr;
  EXPECT_TRUE(queue.Test(done).ok()) << "it completed before the failure";
  EXPECT_EQ(memory_.host_error, memory_.control.error) << "the mirror ends with the cause";
}

TEST_F(SharedQueueError, MirrorsTheFirstErrorButNoLaterFlush) {
  const Posted first = Post(queue_);
  const Posted second = Post(other_);
  nic_.FailAt(0, Syndrome::kRemoteAccess);
  ASSERT_TRUE(nic_.Step());
  EXPECT_EQ(memory_.host_error, 0U) << "no poster has read the CQE yet";
  EXPECT_EQ(queue_.Test(first.ticket).code, Code::kError);
  EXPECT_EQ(memory_.host_error, memory_.control.error);
  const uint64_t first_error = memory_.host_error;
  ASSERT_TRUE(nic_.Step());
  EXPECT_EQ(other_.Test(second.ticket).syndrome, static_cast<uint8_t>(Syndrome::kRemoteAccess));
  EXPECT_EQ(memory_.host_error, first_error) << "a later flush changes nothing";
}

TEST_F(SharedQueueError, WorksWithoutAMirror) {
  memory_.control.host_error = nullptr;
  const Posted posted = Post(queue_);
  nic_.FailAt(0, Syndrome::kRemoteAccess);
  ASSERT_TRUE(nic_.Step());
  EXPECT_EQ(queue_.Test(posted.ticket).code, Code::kError);
}

TEST_F(SharedQueueError, NamesTheFailedOperation) {
  uint64_t word = 0;
  const Posted posted = queue_.Post(FetchAdd(Remote(word), uint64_t{1}));
  nic_.FailAt(0, Syndrome::kRemoteAccess);
  ASSERT_TRUE(nic_.Step());
  EXPECT_EQ(queue_.Test(posted.ticket).opcode, static_cast<uint8_t>(mlx5::WqeOpcode::kAtomicFa));
}

}  // namespace
}  // namespace warpverbs::device
