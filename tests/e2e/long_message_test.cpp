#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "pair.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/device/receive_queue.hpp"

namespace warpverbs::e2e {
namespace {

using device::Code;

constexpr uint32_t kLongest = 4096;  // equals softhca's --max-message

template <class Sharing>
class LongMessage : public testing::Test {
 protected:
  LongMessage() { pair.Connect(); }

  Pair pair{{.a = {.depth = 16}, .b = {.receive_depth = 4}, .bytes = 64 * kLongest}};
  Queue<Sharing> queue{pair.a.View()};
};
using Sharings = testing::Types<device::Exclusive, device::Shared>;
TYPED_TEST_SUITE(LongMessage, Sharings);

TYPED_TEST(LongMessage, IsSplitAtTheLongestMessage) {
  constexpr uint64_t kWords = 4 * kLongest / 8;
  uint32_t next = 0;
  for (const auto& [bytes, slots] : {std::pair{uint64_t{8}, 1u},
                                     {kLongest, 1u},
                                     {kLongest + 8, 2u},
                                     {2 * kLongest, 2u},
                                     {3 * kLongest + 8, 4u},
                                     {4 * kLongest, 4u}}) {
    SCOPED_TRACE(testing::Message() << bytes << " bytes");
    for (size_t i = 0; i < kWords; ++i) {
      this->pair.Source(i) = i + 1;
      this->pair.Target(i) = 0;
    }
    const device::LocalMemory local = this->pair.Local(0, bytes);
    const device::Posted write = this->queue.Post(device::Write(this->pair.Remote(0), local), Within());
    EXPECT_EQ(write.ticket.index, (next += slots) - 1);
    ASSERT_EQ(this->queue.Wait(write.ticket, Within()).code, Code::kOk);
    for (size_t i = 0; i < kWords; ++i) ASSERT_EQ(this->pair.Target(i), i < bytes / 8 ? i + 1 : 0);

    for (size_t i = 0; i < kWords; ++i) this->pair.Source(i) = 0;
    const device::Posted read = this->queue.Post(device::Read(this->pair.Remote(0), local), Within());
    EXPECT_EQ(read.ticket.index, (next += slots) - 1);
    ASSERT_EQ(this->queue.Wait(read.ticket, Within()).code, Code::kOk);
    for (size_t i = 0; i < kWords; ++i) ASSERT_EQ(this->pair.Source(i), i < bytes / 8 ? i + 1 : 0);
  }
}

TYPED_TEST(LongMessage, DeliversItsImmediateOnceAndLast) {
  constexpr uint64_t kBytes = 3 * kLongest + 8;
  device::ReceiveQueue<Cpu> receives(this->pair.b.ReceiveView());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(receives.Post({}).ok());
  receives.Submit();
  for (size_t i = 0; i < kBytes / 8; ++i) this->pair.Source(i) = i + 1;
  const auto write = device::WriteImm(this->pair.Remote(0), this->pair.Local(0, kBytes), mlx5::Be32{42});
  ASSERT_TRUE(this->queue.Post(write, Within()).status.ok());
  const device::Received received = receives.Poll(Within());
  ASSERT_EQ(received.status.code, Code::kOk);
  EXPECT_EQ(received.imm.raw, 42u);
  for (size_t i = 0; i < kBytes / 8; ++i) ASSERT_EQ(this->pair.Target(i), i + 1);
  ASSERT_EQ(this->queue.Flush(Within()).code, Code::kOk);
  EXPECT_EQ(receives.PollOnce().status.code, Code::kPending) << "one receive for all pieces";
}

TYPED_TEST(LongMessage, IsRefusedWhenItCannotBeSplit) {
  const device::LocalMemory longest = this->pair.Local(0, kLongest), word = this->pair.Local(0, 8);
  const auto error_of = [&](const auto& operation) {
    const device::Posted posted = this->queue.Post(operation, Within());
    EXPECT_EQ(posted.status.code, Code::kInvalid);
    return posted.status.request_error;
  };
  EXPECT_EQ(error_of(device::Send(this->pair.Local(0, kLongest + 1))), device::RequestError::kMessageTooLong);
  EXPECT_EQ(error_of(device::Write(this->pair.Remote(0), longest, word)),
            device::RequestError::kMessageTooLong);
  EXPECT_EQ(error_of(device::Read(this->pair.Remote(0), word, longest)),
            device::RequestError::kMessageTooLong);
  EXPECT_EQ(error_of(device::Write(this->pair.Remote(0), this->pair.Local(0, 16 * kLongest + 1))),
            device::RequestError::kTooManySlots);
  EXPECT_EQ(this->queue.Wait(this->pair.PutWord(this->queue, 0).ticket, Within()).code, Code::kOk);
}

TYPED_TEST(LongMessage, LanesWithDifferentLengthsPostInTurn) {
  constexpr uint32_t kLanes = 8;
  Pair& both = this->pair;
  for (size_t i = 0; i < 64 * kLongest / 8; ++i) both.Source(i) = i + 1;
  std::vector<Code> codes(kLanes, Code::kPending);
  arch::cpu::RunBlock(
      kLanes,
      [&](uint32_t lane) {
        const uint64_t bytes = (1 + lane) * kLongest - 8, offset = 8 * kLongest * lane;
        device::SendQueue<Cpu, TypeParam, device::Warp> mine(both.a.View(), device::Warp(0xff));
        const device::Posted posted =
            mine.Post(device::Write(both.Remote(offset), both.Local(offset, bytes)), Within());
        codes[lane] = posted.status.ok() ? mine.Wait(posted.ticket, Within()).code : posted.status.code;
      },
      kLanes);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    ASSERT_EQ(codes[lane], Code::kOk) << "lane " << lane;
    for (size_t i = 0; i < kLongest; ++i) {
      const size_t word = kLongest * lane + i;
      ASSERT_EQ(both.Target(word), i < ((1 + lane) * kLongest - 8) / 8 ? word + 1 : 0) << "lane " << lane;
    }
  }
}

}  // namespace
}  // namespace warpverbs::e2e
