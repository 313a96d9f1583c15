#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "pace.hpp"
#include "pair.hpp"
#include "warpverbs/device/atomics.hpp"

/// Tests queues of every depth, and indices past their wraps.
namespace warpverbs::e2e {
namespace {

using device::Code;
using host::CqMode;

constexpr size_t kWords = 512;
constexpr size_t kWrites = 70'000;  // past 2^16; past 2^32 when started at 0xffff0000

/// Starts an unused queue at an index. The NIC counts modulo 2^16, from 0.
void StartAt(const Pair& pair, uint32_t index) {
  pair.a.View().control->tail = uint64_t{index} << 32 | index;
}

template <class Sharing>
void WriteAll(Pair& pair, uint32_t start, size_t writes) {
  StartAt(pair, start);
  Queue<Sharing> queue(pair.a.View());
  for (size_t i = 0; i < writes; ++i) {
    const device::Posted posted =
        queue.Post(device::WriteInline{pair.Remote(i % kWords * 8), i + 1}, Within());
    ASSERT_EQ(posted.status.code, Code::kOk) << "write " << i;
    ASSERT_EQ(posted.ticket.index, start + static_cast<uint32_t>(i));
    if (i % 1024 != 1023 && i + 1 != writes) continue;
    ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kOk) << "write " << i;
    for (size_t back = 0; back < std::min(i + 1, kWords); ++back)
      ASSERT_EQ(pair.Target((i - back) % kWords), i - back + 1);
  }
  EXPECT_EQ(queue.Flush(Within()).code, Code::kOk);
}

class Depths : public testing::TestWithParam<std::tuple<uint32_t, CqMode>> {
 protected:
  Depths() { pair.Connect(); }

  uint32_t depth() const { return std::get<0>(GetParam()); }

  Pair pair{{.a = {.depth = std::get<0>(GetParam()), .cq_mode = std::get<1>(GetParam())}}};
};

TEST_P(Depths, OnePosterWritesPast16Bits) { WriteAll<device::Exclusive>(pair, 0, kWrites); }
TEST_P(Depths, SharedPosterWritesPast16Bits) { WriteAll<device::Shared>(pair, 0, kWrites); }
TEST_P(Depths, OnePosterWritesPast32Bits) { WriteAll<device::Exclusive>(pair, 0xffff'0000, kWrites); }
TEST_P(Depths, SharedPosterWritesPast32Bits) { WriteAll<device::Shared>(pair, 0xffff'0000, kWrites); }

TEST_P(Depths, FourSharedPostersAddUpPast32Bits) {
  constexpr uint32_t kThreads = 4, kAdds = 20'000, kStart = 0xffff'0000;
  StartAt(pair, kStart);
  std::vector<Code> codes(kThreads, Code::kPending);
  {
    std::vector<std::jthread> threads;
    for (Code& code : codes) {
      threads.emplace_back([&] {
        Queue<device::Shared> queue(pair.a.View());
        device::Posted posted;
        for (uint32_t i = 0; i < kAdds && posted.status.ok(); ++i)
          posted = queue.Post(device::FetchAdd<uint64_t>(pair.Remote(0), 1), Within());
        code = posted.status.ok() ? queue.Wait(posted.ticket, Within()).code : posted.status.code;
      });
    }
  }
  for (const Code code : codes) EXPECT_EQ(code, Code::kOk);
  EXPECT_EQ(pair.Target(0), kThreads * kAdds);
  const uint32_t end = kStart + kThreads * kAdds;
  EXPECT_EQ(pair.a.View().control->tail, uint64_t{end} << 32 | end);
}

TEST_P(Depths, BatchMayFillTheQueue) {
  Queue<device::Shared> queue(pair.a.View());
  for (int round = 0; round < 3; ++round) {
    auto batch = queue.Begin(depth(), Within());
    ASSERT_EQ(batch.status().code, Code::kOk);
    for (uint32_t i = 0; i < depth(); ++i)
      ASSERT_TRUE(batch.Add(device::FetchAdd<uint64_t>(pair.Remote(0), 1)).status.ok());
    EXPECT_EQ(batch.Add(device::Nop()).status.request_error, device::RequestError::kTooManySlots);
    const device::Posted posted = batch.Submit();
    ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kOk);
  }
  EXPECT_EQ(pair.Target(0), 3 * depth());
  EXPECT_EQ(queue.Begin(depth() + 1).status().request_error, device::RequestError::kTooManySlots);
}

TEST_P(Depths, OperationOfThreeSlotsNeedsADepthOfThree) {
  Queue<device::Exclusive> queue(pair.a.View());
  for (uint64_t i = 0; i < 1000; ++i) {
    const device::Posted posted =
        queue.Post(device::Swap<uint64_t>(pair.Remote(0), i, pair.Local(0, 8)), Within());
    if (depth() < 3) {
      ASSERT_EQ(posted.status.code, Code::kInvalid);
      ASSERT_EQ(posted.status.request_error, device::RequestError::kTooManySlots);
      continue;
    }
    ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kOk);
    ASSERT_EQ(pair.Target(0), i);
    ASSERT_EQ(pair.Source(0), i == 0 ? 0 : i - 1);
  }
}

std::string Name(const testing::TestParamInfo<Depths::ParamType>& test) {
  const auto [depth, mode] = test.param;
  return std::to_string(depth) + (mode == CqMode::kRing ? "OnARing" : "");
}
/// A sanitizer takes minutes for all depths, so it gets one.
std::vector<uint32_t> AllDepths() {
  if (tests::kSanitized) return {64};
  return {1, 2, 4, 64, 32768};
}
INSTANTIATE_TEST_SUITE_P(, Depths,
                         testing::Combine(testing::ValuesIn(AllDepths()),
                                          testing::Values(CqMode::kCollapsed, CqMode::kRing)),
                         Name);

TEST(ManyWrites, ArriveFromOnePoster) {
  Pair pair({.a = {.depth = 1024}});
  pair.Connect();
  Queue<device::Exclusive> queue(pair.a.View());
  for (size_t i = 0; i < kMaxWrites; ++i) {
    const device::Posted posted =
        queue.Post(device::WriteInline{pair.Remote(i % kWords * 8), i + 1}, Within());
    ASSERT_EQ(posted.status.code, Code::kOk) << "write " << i;
  }
  ASSERT_EQ(queue.Flush(Within()).code, Code::kOk);
  for (size_t i = kMaxWrites - kWords; i < kMaxWrites; ++i) EXPECT_EQ(pair.Target(i % kWords), i + 1);
}

}  // namespace
}  // namespace warpverbs::e2e
