#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "common/repetitions.hpp"
#include "pair.hpp"

namespace warpverbs::e2e {
namespace {

constexpr size_t kWrites = tests::Repetitions(70'000);  // of all threads together: the 16-bit index wraps
constexpr size_t kWindow = 3;                           // open tickets of a thread

using Load = std::tuple<size_t, uint32_t>;  // number of threads, depth of the queue

/// Posts the words first, first + step and so on, and waits for every ticket. Returns the first error.
template <class Sharing>
device::Status WriteWords(const Pair& pair, size_t first, size_t step) {
  Queue<Sharing> queue(pair.a.View());
  std::vector<device::Ticket> open;
  for (size_t i = first; i < kWrites; i += step) {
    const device::Posted posted = pair.PutWord(queue, i);
    if (!posted.status.ok()) return posted.status;
    open.push_back(posted.ticket);
    if (open.size() < kWindow) continue;
    if (const device::Status status = queue.Wait(open.front(), Within()); !status.ok()) return status;
    open.erase(open.begin());
  }
  for (const device::Ticket ticket : open) {
    if (const device::Status status = queue.Wait(ticket, Within()); !status.ok()) return status;
  }
  return {};
}

template <class Sharing>
void ExpectThatEveryThreadsWritesArrive(const Load& load) {
  const auto [threads, depth] = load;
  Pair pair(For<Sharing>({.a = {.depth = depth}, .bytes = kWrites * 8}));
  pair.Connect();
  for (size_t i = 0; i < kWrites; ++i) pair.Source(i) = i + 1;
  std::vector<device::Status> statuses(threads);
  {
    std::vector<std::jthread> running;
    for (size_t t = 0; t < threads; ++t) {
      running.emplace_back([&, t, all = threads] { statuses[t] = WriteWords<Sharing>(pair, t, all); });
    }
  }
  for (const device::Status& status : statuses) ASSERT_EQ(status.code, device::Code::kOk);
  for (size_t i = 0; i < kWrites; ++i) ASSERT_EQ(pair.Target(i), i + 1);
  EXPECT_EQ(pair.End(), uint64_t{kWrites} << 32 | kWrites) << "reserved and published alike";
}

class Sharing : public testing::TestWithParam<Load> {};

TEST_P(Sharing, EveryThreadsWritesArrive) { ExpectThatEveryThreadsWritesArrive<device::Shared>(GetParam()); }
TEST_P(Sharing, EveryRelaxedThreadsWritesArrive) {
  ExpectThatEveryThreadsWritesArrive<device::RelaxedShared>(GetParam());
}
TEST_P(Sharing, EveryContendedThreadsWritesArrive) {
  ExpectThatEveryThreadsWritesArrive<device::Contended>(GetParam());
}

std::string Name(const testing::TestParamInfo<Sharing::ParamType>& test) {
  const auto [threads, depth] = test.param;
  return std::to_string(threads) + "ThreadsOnDepth" + std::to_string(depth);
}
INSTANTIATE_TEST_SUITE_P(, Sharing, testing::Combine(testing::Values(2, 4), testing::Values(4, 64)), Name);

}  // namespace
}  // namespace warpverbs::e2e
