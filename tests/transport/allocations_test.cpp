#include <gtest/gtest.h>

#include <optional>

#include "count_allocations.hpp"
#include "pair.hpp"

/// A write in steady state allocates nothing on any thread.
namespace warpverbs::transport {
namespace {

/// Runs notified writes and waits for them, one of each at a time.
class Rounds {
 public:
  explicit Rounds(const TransportConfig& config) : pair_(config, &loop_) { pair_.Connect(); }

  /// @param timeout  timeout of the operations; grows by `step` in each round
  void Run(int rounds, std::optional<std::chrono::nanoseconds>& timeout, std::chrono::nanoseconds step) {
    std::promise<void> done;
    done_ = &done;
    left_ = rounds;
    timeout_ = &timeout;
    step_ = step;
    Next();
    ASSERT_EQ(done.get_future().wait_for(kTestTimeout), std::future_status::ready);
  }

 private:
  void Next() {
    if (left_-- == 0) return done_->set_value();
    if (*timeout_) **timeout_ += step_;
    outstanding_ = 2;
    const auto ended = [this](const Status& status) {
      EXPECT_SUCCESS(status);
      if (--outstanding_ == 0) Next();
    };
    pair_.b.WaitForWrite({.timeout = *timeout_}, ended);
    pair_.a.Write(view_, remote_, {.notify = true, .timeout = *timeout_}, ended);
  }

  EventLoop loop_;
  Pair pair_;
  Buffer from_{8192}, to_{8192};
  const RdmaMemory::View view_ = from_.memory.CreateView();
  const RdmaRemoteBuffer remote_ = to_.memory.Remote();
  std::promise<void>* done_ = nullptr;
  int left_ = 0, outstanding_ = 0;
  std::optional<std::chrono::nanoseconds>* timeout_ = nullptr;
  std::chrono::nanoseconds step_{};
};

/// Returns the number of allocations in a thousand rounds in steady state.
uint64_t AllocationsOfAThousand(const TransportConfig& config,
                                std::optional<std::chrono::nanoseconds> timeout = {},
                                std::chrono::nanoseconds step = {}) {
  Rounds rounds(config);
  rounds.Run(2000, timeout, step);
  const uint64_t before = Allocations();
  rounds.Run(10, timeout, step);
  const uint64_t ten = Allocations() - before;  // fixed cost of a run: its promise
  rounds.Run(1010, timeout, step);
  return Allocations() - before - 2 * ten;
}

TEST(Allocations, AreNoneForWritesAndNotificationsInSteadyState) {
  EXPECT_EQ(AllocationsOfAThousand({}), 0u);
}

TEST(Allocations, AreNoneForWritesWithDeadlines) { EXPECT_EQ(AllocationsOfAThousand({}, kTestTimeout), 0u); }

/// Each deadline is earlier than all before it, so each sets the timer again.
TEST(Allocations, AreNoneForATimerThatIsSetRepeatedly) {
  const TransportConfig no_spin{.spin = std::chrono::nanoseconds(0)};
  EXPECT_EQ(AllocationsOfAThousand(no_spin, std::chrono::hours(100), -std::chrono::seconds(1)), 0u);
}

}  // namespace
}  // namespace warpverbs::transport
