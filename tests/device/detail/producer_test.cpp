#include "warpverbs/device/detail/producer.hpp"

#include <gtest/gtest.h>

#include "../test_queue.hpp"
#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::device {
namespace {

template <class Sharing>
class ProducerTest : public testing::Test {};

using Sharings = testing::Types<Exclusive, Shared>;
TYPED_TEST_SUITE(ProducerTest, Sharings);

TYPED_TEST(ProducerTest, WhoFollowedAllTheTimeFindsTheQueueFullHoweverFarItCame) {
  for (const uint32_t jump : {100U, 1U << 31, (1U << 31) + 1, (1U << 31) + (1U << 30)}) {
    SCOPED_TRACE(jump);
    TestQueue memory(4);
    Producer<arch::Cpu, TypeParam> producer(memory.View());
    memory.Complete({.wqe_counter = static_cast<uint16_t>(jump - 5)});  // all but the last four
    memory.control.tail = uint64_t{jump} << 32 | jump;
    producer.tail().Follow(jump);
    EXPECT_EQ(producer.Reserve(1, {}), Code::kFull);
    memory.Complete({.wqe_counter = static_cast<uint16_t>(jump - 4)});
    EXPECT_EQ(producer.Reserve(1, {}), Code::kOk);
    EXPECT_EQ(producer.tail().next(), jump + 1);
  }
}

}  // namespace
}  // namespace warpverbs::device
