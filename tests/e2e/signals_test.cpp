#include <gtest/gtest.h>

#include <thread>

#include "abort.hpp"
#include "pair.hpp"
#include "warpverbs/device/signal.hpp"

/// Tests one side that signals and another that waits.
namespace warpverbs::e2e {
namespace {

using device::Code;
using device::Compare;

class Signals : public testing::Test {
 protected:
  static constexpr size_t kWord = 511;  // the last word of the target

  Signals() { pair.Connect(); }

  device::RemoteMemory word() const { return pair.Remote(8 * kWord); }
  device::Status Await(Compare compare, uint64_t value) {
    return device::WaitSignal<Cpu>(&pair.Target(kWord), compare, value, Within());
  }

  Pair pair{{.a = {.depth = 16}}};
  Queue<device::Exclusive> queue{pair.a.View()};
};

TEST_F(Signals, SetReplacesAndAddAdds) {
  ASSERT_TRUE(queue.Post(device::SignalSet(word(), 40), Within()).status.ok());
  EXPECT_EQ(Await(Compare::kEqual, 40).code, Code::kOk);
  ASSERT_TRUE(queue.Post(device::SignalAdd(word(), 2), Within()).status.ok());
  EXPECT_EQ(Await(Compare::kGreaterOrEqual, 42).code, Code::kOk);
  ASSERT_TRUE(queue.Post(device::SignalAdd(word()), Within()).status.ok());
  EXPECT_EQ(Await(Compare::kNotEqual, 42).code, Code::kOk);
  EXPECT_EQ(pair.Target(kWord), 43u);
  ASSERT_EQ(queue.Flush(Within()).code, Code::kOk);
}

TEST_F(Signals, WaitWithoutASignalEndsAtItsLimit) {
  EXPECT_EQ(device::TestSignal<Cpu>(&pair.Target(kWord), Compare::kEqual, 1).code, Code::kPending);
  EXPECT_EQ(device::WaitSignal<Cpu>(&pair.Target(kWord), Compare::kEqual, 1, {}).code, Code::kTimeout);
  EXPECT_EQ(device::WaitSignal<Cpu>(&pair.Target(kWord), Compare::kGreaterOrEqual, 1,
                                    {.deadline_ns = Cpu::NowNs() + 1'000'000})
                .code,
            Code::kTimeout);
  EXPECT_EQ(device::WaitSignal<Cpu>(&pair.Target(kWord), Compare::kNotEqual, 0, Abort().limit()).code,
            Code::kAborted);
}

/// Sends rounds of data with a signal each. The receiver checks a round and then releases the next.
class PutSignal : public testing::TestWithParam<bool> {};

TEST_P(PutSignal, MakesItsDataVisible) {
  constexpr uint64_t kRounds = 500, kWords = 4096 / 8, kSignal = 2 * kWords - 1;
  const bool adds = GetParam();
  Pair pair({.a = {.depth = 8}, .bytes = 2 * 4096});
  pair.Connect();
  uint64_t released = 0;  // rounds that the receiver has checked
  uint64_t wrong = 0;
  std::jthread receiver([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      const Compare compare = adds ? Compare::kGreaterOrEqual : Compare::kEqual;
      if (!device::WaitSignal<Cpu>(&pair.Target(kSignal), compare, round, Within()).ok()) return;
      for (size_t i = 0; i < kWords; ++i) wrong += pair.Target(i) != round;
      Cpu::StoreRelease(&released, round);
    }
  });
  Queue<device::Exclusive> queue(pair.a.View());
  const device::RemoteMemory word = pair.Remote(8 * kSignal);
  for (uint64_t round = 1; round <= kRounds; ++round) {
    for (size_t i = 0; i < kWords; ++i) pair.Source(i) = round;
    const auto put = [&](const auto& signal) {
      return queue.Post(device::PutSignal(pair.Remote(0), pair.Local(0, 8 * kWords), signal), Within());
    };
    const device::Posted posted = adds ? put(device::SignalAdd(word)) : put(device::SignalSet(word, round));
    ASSERT_EQ(posted.status.code, Code::kOk);
    ASSERT_EQ(device::WaitSignal<Cpu>(&released, Compare::kEqual, round, Within()).code, Code::kOk);
    ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kOk);
  }
  receiver.join();
  EXPECT_EQ(wrong, 0u);
}

INSTANTIATE_TEST_SUITE_P(, PutSignal, testing::Bool(),
                         [](const auto& test) { return test.param ? "Adding" : "Setting"; });

/// A queue pair that is connected to itself and counts the completions of another.
class Counting : public testing::Test {
 protected:
  Counting() {
    pair.Connect();
    counter.Connect(counter.Info());
  }

  device::WaitCq After(uint32_t completions) const { return {pair.a.send_cqn(), completions}; }

  Pair pair{{.a = {.depth = 16}}};
  host::Endpoint counter{pair.device, {.depth = 16, .wait_on_cq = true}};
  Queue<device::Exclusive> queue{pair.a.View()}, counting{counter.View()};
};

TEST_F(Counting, CompletionsIncrementACounterWithoutAThread) {
  for (uint32_t i = 1; i <= 100; ++i) {
    const device::Posted bump = counting.Post(device::CountCompletions(After(i), pair.Remote(8)), Within());
    ASSERT_EQ(bump.status.code, Code::kOk);
    EXPECT_EQ(device::TestSignal<Cpu>(&pair.Target(1), Compare::kEqual, i).code, Code::kPending);
    EXPECT_EQ(counting.Test(bump.ticket).code, Code::kPending);
    ASSERT_TRUE(pair.PutWord(queue, 0).status.ok());
    ASSERT_EQ(device::WaitSignal<Cpu>(&pair.Target(1), Compare::kEqual, i, Within()).code, Code::kOk);
    ASSERT_EQ(counting.Wait(bump.ticket, Within()).code, Code::kOk);
  }
}

TEST_F(Counting, WaitsForTheLastOfSeveral) {
  const device::Posted bump = counting.Post(device::CountCompletions(After(3), pair.Remote(8)), Within());
  ASSERT_EQ(bump.status.code, Code::kOk);
  for (int i = 0; i < 2; ++i) {
    const device::Posted posted = pair.PutWord(queue, 0);
    ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kOk);
  }
  EXPECT_EQ(counting.Wait(bump.ticket, {.deadline_ns = Cpu::NowNs() + 5'000'000}).code, Code::kTimeout);
  EXPECT_EQ(pair.Target(1), 0u);
  ASSERT_TRUE(pair.PutWord(queue, 0).status.ok());
  ASSERT_EQ(counting.Wait(bump.ticket, Within()).code, Code::kOk);
  EXPECT_EQ(pair.Target(1), 1u);
}

}  // namespace
}  // namespace warpverbs::e2e
