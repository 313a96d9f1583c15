#include "warpverbs/device/signal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "golden.hpp"
#include "nic_thread.hpp"
#include "together.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using mlx5::WqeOpcode;
using testing::ElementsAre;

class SignalTest : public testing::Test {
 protected:
  template <class Operation>
  Posted Post(const Operation& operation) {
    const Posted posted = queue_.Post(operation);
    EXPECT_TRUE(posted.status.ok());
    return posted;
  }
  void Execute() {
    while (nic_.Step()) {
    }
    EXPECT_EQ(nic_.violation(), "");
  }

  TestQueue memory_{8};
  TestNic nic_{memory_};
  SendQueue<Cpu, Exclusive> queue_{memory_.View()};
  uint64_t word_ = 40;
};

TEST_F(SignalTest, AddsToTheWord) {
  static_cast<void>(Post(SignalAdd(Remote(word_))));
  static_cast<void>(Post(SignalAdd(Remote(word_), 10)));
  Execute();
  EXPECT_EQ(word_, 51U);
  EXPECT_EQ(memory_.control.sink, 41U) << "the old value";
}

TEST_F(SignalTest, SetsTheWordInThisSidesByteOrder) {
  static_cast<void>(Post(SignalSet(Remote(word_), 0x0102030405060708)));
  Execute();
  EXPECT_EQ(word_, 0x0102030405060708U);
}

TEST_F(SignalTest, SendsDataBeforeTheSignalByOneDoorbell) {
  uint64_t from = 42, to = 0;
  const Posted posted = Post(PutSignal(Remote(to), Local(from), SignalAdd(Remote(word_))));
  EXPECT_EQ(posted.ticket.index, 1U);
  ASSERT_TRUE(nic_.Step());
  EXPECT_EQ(nic_.doorbells(), 1U);
  EXPECT_EQ(to, 42U);
  EXPECT_EQ(word_, 40U);
  EXPECT_EQ(queue_.Test(posted.ticket).code, Code::kPending);
  Execute();
  EXPECT_EQ(word_, 41U);
  EXPECT_TRUE(queue_.Test(posted.ticket).ok());
  EXPECT_THAT(nic_.opcodes(), ElementsAre(WqeOpcode::kRdmaWrite, WqeOpcode::kAtomicFa));
}

TEST_F(SignalTest, SetsTheWordAfterTheData) {
  uint64_t from = 42, to = 0;
  static_cast<void>(Post(PutSignal(Remote(to), Local(from), SignalSet(Remote(word_), 7))));
  Execute();
  EXPECT_EQ(to, 42U);
  EXPECT_EQ(word_, 7U);
}

TEST_F(SignalTest, CountsCompletionsByAWaitAndAnAdd) {
  const RawSendQueue<Cpu> ring(memory_.View());
  ring.Post(0, CountCompletions(WaitCq{0x4321, 9}, Remote(word_)));
  const std::string image = SlotsFrom(memory_, 0, 2);
  EXPECT_EQ(image[3], static_cast<char>(WqeOpcode::kWait));
  EXPECT_EQ(image[11], 0) << "only the second WQE requests a completion";
  const LocalMemory sink{reinterpret_cast<uint64_t>(&memory_.control.sink), 8, kTestKey};
  EXPECT_EQ(image.substr(64), Golden(WqeOpcode::kAtomicFa)
                                  .Add(SegmentOf(Remote(word_)))
                                  .Add(mlx5::AtomicSegment{mlx5::ToBe64(1), {}})
                                  .Add(SegmentOf(sink))
                                  .Bytes(1));
}

TEST(Signal, ComparesAsRequested) {
  const uint64_t word = 10;
  const auto test = [&](Compare compare, uint64_t value) {
    return TestSignal<Cpu>(&word, compare, value).code;
  };
  EXPECT_EQ(test(Compare::kEqual, 10), Code::kOk);
  EXPECT_EQ(test(Compare::kEqual, 11), Code::kPending);
  EXPECT_EQ(test(Compare::kNotEqual, 10), Code::kPending);
  EXPECT_EQ(test(Compare::kNotEqual, 11), Code::kOk);
  EXPECT_EQ(test(Compare::kGreaterOrEqual, 9), Code::kOk);
  EXPECT_EQ(test(Compare::kGreaterOrEqual, 10), Code::kOk);
  EXPECT_EQ(test(Compare::kGreaterOrEqual, 11), Code::kPending);
  EXPECT_EQ(test(Compare::kGreaterOrEqual, UINT64_MAX), Code::kPending) << "unsigned";
}

TEST(Signal, StopsWaitingAtItsLimit) {
  const uint64_t word = 10, abort = 1;
  const auto wait = [&](const WaitLimit& limit) {
    return WaitSignal<Cpu>(&word, Compare::kEqual, 11, limit).code;
  };
  EXPECT_EQ(wait({}), Code::kTimeout);
  EXPECT_EQ(wait(InAMillisecond()), Code::kTimeout);
  EXPECT_EQ(wait({.deadline_ns = UINT64_MAX, .abort = &abort}), Code::kAborted);
  EXPECT_TRUE(WaitSignal<Cpu>(&word, Compare::kEqual, 10, {}).ok()) << "a signal that is set needs no time";
}

TEST_F(SignalTest, ShowsTheDataWithTheSignal) {  // under ThreadSanitizer this proves the order
  constexpr uint32_t kRounds = 200;
  struct Data {
    uint32_t words[5];
  };
  std::vector<Data> from(kRounds), to(kRounds);
  word_ = 0;
  NicThread thread(nic_);
  Together(2, [&](uint32_t side) {
    for (uint32_t i = 0; i < kRounds; ++i) {
      if (side == 0) {
        from[i].words[4] = i + 1;
        ASSERT_TRUE(queue_.Post(PutSignal(Remote(to[i]), Local(from[i]), SignalAdd(Remote(word_))), Soon())
                        .status.ok());
      } else {
        ASSERT_TRUE(WaitSignal<Cpu>(&word_, Compare::kGreaterOrEqual, i + 1, Soon()).ok());
        ASSERT_EQ(to[i].words[4], i + 1);
      }
    }
  });
  ASSERT_TRUE(queue_.Flush(Soon()).ok());
  thread.Stop();
  EXPECT_EQ(nic_.violation(), "");
}

}  // namespace
}  // namespace warpverbs::device
