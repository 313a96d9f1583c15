#include <gtest/gtest.h>

#include <optional>

#include "count_allocations.hpp"
#include "pair.hpp"

/// A write in steady state allocates nothing, in no thread.
namespace warpverbs::transport {
namespace {

/// Notified writes and waits for them, one of each at a time.
class Rounds {
 public:
  explicit Rounds(const TransportOptions& options) : pair_(options, &loop_) { pair_.Connect(); }

  /// @param timeout  of all operations; the longer by `step` each time
  void Run(int rounds, std::optional<std::chrono::nanoseconds>& timeout, std::chrono::nanoseconds step) {
    std::promise<void> done;
    done_ = &done;
    left_ = rounds;
    timeout_ = &timeout;
    step_ = step;
    Next();
    ASSERT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
  }

 private:
  void Next() {
    if (left_-- == 0) return done_->set_value();
    if (*timeout_) **timeout_ += step_;
    under_way_ = 2;
    const auto ended = [this](const Status& status) {
      EXPECT_SUCCESS(status);
      if (--under_way_ == 0) Next();
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
  int left_ = 0, under_way_ = 0;
  std::optional<std::chrono::nanoseconds>* timeout_ = nullptr;
  std::chrono::nanoseconds step_{};
};

/// How many allocations a thousand rounds cost once all is warm.
uint64_t AllocationsOfAThousand(const TransportOptions& options,
                                std::optional<std::chrono::nanoseconds> timeout = {},
                                std::chrono::nanoseconds step = {}) {
  Rounds rounds(options);
  rounds.Run(2000, timeout, step);
  const uint64_t before = Allocations();
  rounds.Run(10, timeout, step);
  const uint64_t ten = Allocations() - before;  // what a run costs whatever its length: its promise
  rounds.Run(1010, timeout, step);
  return Allocations() - before - 2 * ten;
}

TEST(Allocations, OfWritesAndNotificationsAreNoneOnceAllIsWarm) { EXPECT_EQ(AllocationsOfAThousand({}), 0u); }

TEST(Allocations, OfWritesThatHaveDeadlinesAreNoneEither) {
  EXPECT_EQ(AllocationsOfAThousand({}, kLong), 0u);
}

/// Each is due before all that came before it, so each sets the timer anew.
TEST(Allocations, OfATimerThatIsSetAgainAndAgainAreNone) {
  const TransportOptions sleepy{.spin = std::chrono::nanoseconds(0)};
  EXPECT_EQ(AllocationsOfAThousand(sleepy, std::chrono::hours(100), -std::chrono::seconds(1)), 0u);
}

}  // namespace
}  // namespace warpverbs::transport
