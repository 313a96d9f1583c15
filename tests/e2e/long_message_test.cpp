#include <gtest/gtest.h>

#include "fault.hpp"

namespace warpverbs::e2e {
namespace {

using device::Code;

constexpr uint32_t kLongest = 65536;  // softhca was started with it

template <class Sharing>
class LongMessage : public testing::Test {
 protected:
  LongMessage() { pair.Connect(); }

  Pair pair{{.bytes = 4 * kLongest}};
  Queue<Sharing> queue{pair.a.View()};
};
using Sharings = testing::Types<device::Exclusive, device::Shared>;
TYPED_TEST_SUITE(LongMessage, Sharings);

TYPED_TEST(LongMessage, IsSplitWhereItIsLongerThanTheLongest) {
  constexpr uint64_t kBytes = 3 * kLongest + 8;
  for (size_t i = 0; i < kBytes / 8; ++i) this->pair.Source(i) = i + 1;
  for (const auto& [bytes, slots] : {std::pair{uint64_t{kLongest}, 1u}, {kLongest + 8, 2u}, {kBytes, 4u}}) {
    for (size_t i = 0; i < kBytes / 8; ++i) this->pair.Target(i) = 0;
    const uint32_t before = static_cast<uint32_t>(this->pair.a.View().control->tail);
    const device::Posted posted =
        this->queue.Post(device::Write(this->pair.Remote(0), this->pair.Local(0, bytes)));
    ASSERT_EQ(this->queue.Wait(posted.ticket, Within()).code, Code::kOk);
    for (size_t i = 0; i < kBytes / 8; ++i) ASSERT_EQ(this->pair.Target(i), i < bytes / 8 ? i + 1 : 0);
    this->queue.Save();
    EXPECT_EQ(static_cast<uint32_t>(this->pair.a.View().control->tail) - before, slots);
  }
}

}  // namespace
}  // namespace warpverbs::e2e
