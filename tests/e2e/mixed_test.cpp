#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/repetitions.hpp"
#include "pair.hpp"
#include "warpverbs/device/atomics.hpp"

/// Eight threads post every kind of operation to one shared queue that is too small for all of them.
namespace warpverbs::e2e {
namespace {

using device::Code;

constexpr uint32_t kThreads = 8, kDepth = 16, kLongestBatch = 8;
constexpr uint32_t kOperations = tests::Repetitions(200'000);             // of all threads together
constexpr size_t kWords = kLongestBatch;                                  // per thread, at both sides
constexpr size_t kCounter = kThreads * kWords, kCounter4 = kCounter + 1;  // words that all threads add to

enum class Kind { kWrite, kInline, kRead, kAdd, kAdd4, kSwap, kSwap4, kXor, kNop, kFence };
constexpr size_t kKinds = 10;

struct Step {
  Kind kind;
  size_t word;     ///< index of the poster's word, at both sides
  uint64_t value;  ///< operand of a write, add or swap

  uint32_t slots() const { return kind == Kind::kSwap ? 3 : 1; }
};

/// One thread's operations. It knows the values of its words, and stops at the first wrong one.
template <class Sharing>
class Poster {
 public:
  Poster(Pair& pair, uint32_t thread)
      : pair_(pair), queue_(pair.a.View()), first_(thread * kWords), random_(thread) {}

  /// @return  the first error, or an empty string
  std::string Run(uint32_t operations) {
    std::string wrong;
    while (operations != 0 && wrong.empty()) {
      const uint32_t size = std::min(operations, 1 + static_cast<uint32_t>(random_() % kLongestBatch));
      wrong = RunBatch(Draw(size));
      operations -= size;
    }
    return wrong;
  }

  /// Returns the first index and the slots of each batch.
  const std::vector<std::pair<uint32_t, uint32_t>>& batches() const { return batches_; }
  uint64_t added() const { return added_; }
  uint32_t added4() const { return added4_; }

 private:
  std::vector<Step> Draw(uint32_t size) {
    std::vector<Step> steps;
    uint32_t slots = 0;
    for (uint32_t i = 0; i < size; ++i) {
      Step step{static_cast<Kind>(random_() % kKinds), first_ + i, random_()};
      if (slots + step.slots() + size - i - 1 > kDepth) step.kind = Kind::kWrite;
      slots += step.slots();
      steps.push_back(step);
    }
    return steps;
  }

  std::string RunBatch(const std::vector<Step>& steps) {
    uint32_t slots = 0;
    for (const Step& step : steps) slots += step.slots();
    auto batch = queue_.Begin(slots, Within());
    if (!batch.status().ok()) return "no slots";
    uint32_t ticket = 0;
    for (const Step& step : steps) {
      const bool reports = &step == &steps.back() || random_() % 2 == 0;
      const device::Posted posted = Add(batch, step, reports ? mlx5::kCqeAlways : mlx5::kCqeOnError);
      if (!posted.status.ok()) return "an operation is refused";
      if (&step != &steps.front() && posted.ticket.index != ticket + step.slots()) return "a ticket is wrong";
      ticket = posted.ticket.index;
    }
    const device::Posted posted = batch.Submit();
    if (!posted.status.ok()) return "not published";
    if (posted.ticket.index != ticket) return "the batch's ticket is not that of its last operation";
    batches_.emplace_back(ticket + 1 - slots, slots);
    if (!queue_.Wait(posted.ticket, Within()).ok()) return "not complete: was a doorbell lost?";
    for (const Step& step : steps) {
      if (!Check(step)) return "wrong data after operation " + std::to_string(static_cast<int>(step.kind));
    }
    return "";
  }

  device::Posted Add(typename Queue<Sharing>::Batch& batch, const Step& step, uint32_t flags) {
    const device::RemoteMemory remote = pair_.Remote(8 * step.word);
    const device::LocalMemory local = pair_.Local(8 * step.word, 8);
    switch (step.kind) {
      case Kind::kWrite:
        pair_.Source(step.word) = step.value;
        return batch.Add(device::Write(remote, local), flags);
      case Kind::kInline:
        return batch.Add(device::WriteInline{remote, step.value}, flags);
      case Kind::kRead:
        return batch.Add(device::Read(remote, local), flags);
      case Kind::kAdd:
        return batch.Add(device::FetchAdd<uint64_t>(pair_.Remote(8 * kCounter), step.value % 1000, local),
                         flags);
      case Kind::kAdd4:
        return batch.Add(device::FetchAdd<uint32_t>(pair_.Remote(8 * kCounter4), Low(step.value)), flags);
      case Kind::kSwap:
        return batch.Add(device::Swap<uint64_t>(remote, step.value, local), flags);
      case Kind::kSwap4: {
        const device::CompareSwapOperands<uint32_t> exchange{.compare = Low(Known(step)),
                                                             .swap = Low(step.value)};
        return batch.Add(device::CompareSwap<uint32_t>(remote, exchange, local), flags);
      }
      case Kind::kXor:
        return batch.Add(device::FetchXor<uint64_t>(remote, step.value, local), flags);
      case Kind::kNop:
        return batch.Add(device::Nop(), flags);
      case Kind::kFence:
        return batch.Add(device::Fence{}, flags);
    }
    return {};
  }

  /// Whether a completed operation had its effect and no other.
  bool Check(const Step& step) {
    const uint64_t before = Known(step), fetched = pair_.Source(step.word);
    bool right = true;
    switch (step.kind) {
      case Kind::kWrite:
      case Kind::kInline:
        Known(step) = step.value;
        break;
      case Kind::kRead:
        right = fetched == before;
        break;
      case Kind::kAdd:
        right = fetched >= last_count_;
        last_count_ = fetched + step.value % 1000;
        added_ += step.value % 1000;
        break;
      case Kind::kAdd4:
        added4_ += Low(step.value);
        break;
      case Kind::kSwap:
        right = fetched == before;
        Known(step) = step.value;
        break;
      case Kind::kSwap4:
        right = device::Fetched<Cpu>(pair_.SourceAt<uint32_t>(8 * step.word)) == Low(before);
        Known(step) = (before & ~uint64_t{0xffffffff}) | Low(step.value);
        break;
      case Kind::kXor:
        right = fetched == before;
        Known(step) = before ^ step.value;
        break;
      case Kind::kNop:
      case Kind::kFence:
        break;
    }
    return right && pair_.Target(step.word) == Known(step);
  }

  static uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
  uint64_t& Known(const Step& step) { return known_[step.word - first_]; }

  Pair& pair_;
  Queue<Sharing> queue_;
  size_t first_;  // its first word
  std::mt19937_64 random_;
  std::array<uint64_t, kWords> known_{};  // expected values of its words in the target
  std::vector<std::pair<uint32_t, uint32_t>> batches_;
  uint64_t last_count_ = 0;  // last value seen of the counter
  uint64_t added_ = 0;
  uint32_t added4_ = 0;
};

template <class Sharing>
void ExpectNothingLost(host::CqMode cq_mode, uint32_t operations) {
  Pair pair(For<Sharing>({.a = {.depth = kDepth, .cq_mode = cq_mode}}));
  pair.Connect();
  std::vector<Poster<Sharing>> posters;
  for (uint32_t thread = 0; thread < kThreads; ++thread) posters.emplace_back(pair, thread);
  std::vector<std::string> wrong(kThreads);
  {
    std::vector<std::jthread> threads;
    for (uint32_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] { wrong[i] = posters[i].Run(operations / kThreads); });
  }
  for (const std::string& text : wrong) ASSERT_EQ(text, "");

  uint64_t added = 0;
  uint32_t added4 = 0;
  std::vector<std::pair<uint32_t, uint32_t>> batches;
  for (const Poster<Sharing>& poster : posters) {
    added += poster.added();
    added4 += poster.added4();
    batches.insert(batches.end(), poster.batches().begin(), poster.batches().end());
  }
  EXPECT_EQ(pair.Target(kCounter), added);
  EXPECT_EQ(pair.TargetAt<uint32_t>(8 * kCounter4), added4);
  std::ranges::sort(batches);
  uint32_t end = 0;
  for (const auto& [first, slots] : batches) {
    ASSERT_EQ(first, end) << "each slot belongs to one batch";
    end += slots;
  }
  EXPECT_EQ(pair.End(), uint64_t{end} << 32 | end);
  EXPECT_FALSE(pair.a.LastError().has_value());
}

class Mixed : public testing::TestWithParam<host::CqMode> {};

TEST_P(Mixed, EightThreadsLoseNothingOnAQueueOfSixteen) {
  ExpectNothingLost<device::Shared>(GetParam(), kOperations);
}
TEST_P(Mixed, EightContendedThreadsLoseNothingOnAQueueOfSixteen) {
  ExpectNothingLost<device::Contended>(GetParam(), kOperations / 4);
}

INSTANTIATE_TEST_SUITE_P(, Mixed, testing::Values(host::CqMode::kCollapsed, host::CqMode::kRing),
                         [](const auto& test) {
                           return test.param == host::CqMode::kRing ? "OnARing" : "Collapsed";
                         });

}  // namespace
}  // namespace warpverbs::e2e
