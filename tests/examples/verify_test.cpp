#include "../../examples/simple_gpu_interchange/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "../../examples/common/cpu_team.hpp"
#include "device/test_queue.hpp"
#include "warpverbs/arch/cpu.hpp"

namespace {

using testing::ThrowsMessage;
using namespace warpverbs::device;

TEST(Verify, FailsWhereNoKernelRan) {
  EXPECT_THAT([] { Verify(Outcome{}, 16); },
              ThrowsMessage<std::runtime_error>("The kernel did not run to its end."));
}

TEST(Verify, SaysWhyTheWriteFailed) {
  EXPECT_THAT([] { Verify({.status = {.code = Code::kTimeout}}, 16); },
              ThrowsMessage<std::runtime_error>("The write failed: timeout: the deadline passed."));
}

TEST(Verify, FailsWhereTheNicCompletesAWriteAndDropsItsData) {
  TestQueue queue(4);
  std::array<uint8_t, 16> source{}, target{};
  target[3] = 42;
  WriteCqe(queue.cqe, {.wqe_counter = 0});
  const Job job{.queue = queue.View(), .source = Local(source), .target = Remote(target), .value = 42};
  Outcome outcome;
  CpuTeam::Run(2, [&](const CpuTeam& team) { Interchange<warpverbs::arch::Cpu>(team, job, outcome); });
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_THAT([&] { Verify(outcome, 16); },
              ThrowsMessage<std::runtime_error>("Only 1 of 16 bytes are right."));
}

}  // namespace
