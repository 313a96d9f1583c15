#include "warpverbs/device/detail/queue_state.hpp"

#include <gtest/gtest.h>

#include "../test_queue.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/detail/contended_queue.hpp"

namespace warpverbs::device {
namespace {

template <class Sharing>
class QueueStateTest : public testing::Test {};

using Sharings = testing::Types<Exclusive, Shared, Contended>;
TYPED_TEST_SUITE(QueueStateTest, Sharings);

TYPED_TEST(QueueStateTest, FindsTheQueueFullHoweverFarTheEndWasMoved) {
  for (const uint32_t jump : {100U, 1U << 31, (1U << 31) + 1, (1U << 31) + (1U << 30)}) {
    SCOPED_TRACE(jump);
    TestQueue memory(4);
    QueueState<arch::Cpu, TypeParam> state(ViewFor<TypeParam>(memory));
    memory.Complete({.wqe_counter = static_cast<uint16_t>(jump - 5)});  // all but the last four
    memory.control.tail = uint64_t{jump} << 32 | jump;
    memory.control.ready = jump;
    state.end().SetReserved(jump);
    EXPECT_EQ(state.Reserve(1, {}), Code::kFull);
    memory.Complete({.wqe_counter = static_cast<uint16_t>(jump - 4)});
    EXPECT_EQ(state.Reserve(1, {}), Code::kOk);
    EXPECT_EQ(state.end().reserved(), jump + 1);
  }
}

}  // namespace
}  // namespace warpverbs::device
