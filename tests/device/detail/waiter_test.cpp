#include "warpverbs/device/detail/waiter.hpp"

#include <gtest/gtest.h>

#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::device {
namespace {

/// A processor whose clock the test sets, and whose every 100th pause is long.
struct ClockCpu : arch::Cpu {
  static inline uint64_t now = 0;
  static inline uint32_t clock_reads = 0;
  static uint64_t NowNs() {
    ++clock_reads;
    return now;
  }
  static bool Pause(uint32_t rounds) { return rounds % 100 == 99; }
};

class WaiterTest : public testing::Test {
 protected:
  WaiterTest() { ClockCpu::now = ClockCpu::clock_reads = 0; }
};

TEST_F(WaiterTest, DoesNotWaitWithoutADeadline) {
  Waiter<ClockCpu> waiter({});
  EXPECT_EQ(waiter.Next(), Code::kTimeout);
  EXPECT_EQ(ClockCpu::clock_reads, 0U);
}

TEST_F(WaiterTest, EndsAtADeadlineThatHasPassed) {
  ClockCpu::now = 10;
  Waiter<ClockCpu> waiter({.deadline_ns = 10});
  EXPECT_EQ(waiter.Next(), Code::kTimeout);
}

TEST_F(WaiterTest, ReadsTheClockFirstEvery64thRoundAndAfterALongPause) {
  Waiter<ClockCpu> waiter({.deadline_ns = 10});
  for (uint32_t round = 0; round <= 128; ++round) {
    EXPECT_EQ(waiter.CheckDue(), round % 64 == 0 || round == 100) << round;
    EXPECT_EQ(waiter.Next(), Code::kPending);
  }
  EXPECT_EQ(ClockCpu::clock_reads, 4U);
}

TEST_F(WaiterTest, EndsAtTheNextCheckAfterTheDeadline) {
  Waiter<ClockCpu> waiter({.deadline_ns = 10});
  EXPECT_EQ(waiter.Next(), Code::kPending);
  ClockCpu::now = 10;
  for (uint32_t round = 1; round < 64; ++round) EXPECT_EQ(waiter.Next(), Code::kPending) << round;
  EXPECT_EQ(waiter.Next(), Code::kTimeout);
}

TEST_F(WaiterTest, EndsAtTheAbortWordBeforeTheDeadline) {
  uint64_t abort = 0;
  Waiter<ClockCpu> waiter({.deadline_ns = 10, .abort = &abort});
  EXPECT_EQ(waiter.Next(), Code::kPending);
  abort = 1;
  Code code = Code::kPending;
  for (uint32_t round = 0; round < 64 && code == Code::kPending; ++round) code = waiter.Next();
  EXPECT_EQ(code, Code::kAborted);
}

TEST_F(WaiterTest, CountsAStopOfTheProgramAsOneStepOfARunClock) {
  constexpr uint64_t kHour = 3'600'000'000'000, kStep = RunClock<ClockCpu>::kLongestStepNs;
  ClockCpu::now = 5;
  RunClock<ClockCpu> clock;
  EXPECT_EQ(clock.NowNs(), 0U);
  ClockCpu::now += 7;
  EXPECT_EQ(clock.NowNs(), 7U);
  ClockCpu::now += kHour;
  EXPECT_EQ(clock.NowNs(), 7 + kStep);
  ClockCpu::now += kStep - 1;
  EXPECT_EQ(clock.NowNs(), 6 + 2 * kStep);
  ClockCpu::now -= 1;
  EXPECT_EQ(clock.NowNs(), 6 + 3 * kStep) << "a clock that is set back";
}

}  // namespace
}  // namespace warpverbs::device
