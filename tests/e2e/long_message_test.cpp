#include <gtest/gtest.h>

#include "fault.hpp"

namespace warpverbs::e2e {
namespace {

constexpr uint32_t kLongest = 65536;  // softhca was started with it

template <class Sharing>
class LongMessage : public testing::Test {};
using Sharings = testing::Types<device::Exclusive, device::Shared>;
TYPED_TEST_SUITE(LongMessage, Sharings);

TYPED_TEST(LongMessage, FailsWhereTheLongestSucceeds) {
  Pair pair({.bytes = 2 * kLongest});
  pair.Connect();
  pair.Source(kLongest / 8 - 1) = 42;
  Queue<TypeParam> queue(pair.a.View());
  const device::Posted longest = queue.Put(pair.Remote(0), pair.Local(0, kLongest));
  ASSERT_EQ(queue.Wait(longest.ticket, Within()).code, device::Code::kOk);
  EXPECT_EQ(pair.Target(kLongest / 8 - 1), 42u);
  ExpectFault(
      pair, queue, queue.Put(pair.Remote(0), pair.Local(0, kLongest + 1)),
      {mlx5::Syndrome::kLocalLength, "the message is longer than the port or the receive buffer takes"});
}

}  // namespace
}  // namespace warpverbs::e2e
