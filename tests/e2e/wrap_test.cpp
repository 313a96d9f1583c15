#include <gtest/gtest.h>

#include "pace.hpp"
#include "pair.hpp"

namespace warpverbs::e2e {
namespace {

template <class Sharing>
class Wrap : public testing::Test {};
using WrapSharings = testing::Types<device::Exclusive, device::Shared, device::Contended>;
TYPED_TEST_SUITE(Wrap, WrapSharings);

TYPED_TEST(Wrap, ManyWritesThroughFourSlotsAllArrive) {
  Pair pair(For<TypeParam>({.a = {.depth = 4}, .bytes = kManyWrites * 8}));
  pair.Connect();
  for (size_t i = 0; i < kManyWrites; ++i) pair.Source(i) = i + 1;
  Queue<TypeParam> queue(pair.a.View());
  for (size_t i = 0; i < kManyWrites; ++i) {
    const device::Posted posted = pair.PutWord(queue, i);
    ASSERT_EQ(posted.status.code, device::Code::kOk) << "write " << i;
    ASSERT_EQ(posted.ticket.index, i);
  }
  ASSERT_EQ(queue.Flush(Within()).code, device::Code::kOk);
  for (size_t i = 0; i < kManyWrites; ++i) ASSERT_EQ(pair.Target(i), i + 1);
}

TYPED_TEST(Wrap, NextKernelContinuesWhereTheLastOneEnded) {
  constexpr size_t kKernels = 10, kWrites = 7;
  Pair pair(For<TypeParam>({.a = {.depth = 4}, .bytes = kKernels * kWrites * 8}));
  pair.Connect();
  for (size_t kernel = 0; kernel < kKernels; ++kernel) {
    Queue<TypeParam> queue(pair.a.View());
    for (size_t i = kernel * kWrites; i < (kernel + 1) * kWrites; ++i) {
      pair.Source(i) = i + 1;
      const device::Posted posted = pair.PutWord(queue, i);
      ASSERT_EQ(posted.status.code, device::Code::kOk);
      ASSERT_EQ(posted.ticket.index, i);
    }
    ASSERT_EQ(queue.Flush(Within()).code, device::Code::kOk);
  }
  for (size_t i = 0; i < kKernels * kWrites; ++i) EXPECT_EQ(pair.Target(i), i + 1);
}

TYPED_TEST(Wrap, InlineWordsNeedNoMemoryOfTheirOwn) {
  constexpr size_t kWrites = 512;
  Pair pair(For<TypeParam>({.a = {.depth = 4}}));
  pair.Connect();
  Queue<TypeParam> queue(pair.a.View());
  for (uint64_t value = 0; value < kWrites; ++value) {
    ASSERT_EQ(queue.Post(device::WriteInline{pair.Remote(value * 8), value + 1}, Within()).status.code,
              device::Code::kOk);
  }
  ASSERT_EQ(queue.Flush(Within()).code, device::Code::kOk);
  for (size_t i = 0; i < kWrites; ++i) EXPECT_EQ(pair.Target(i), i + 1);
}

TYPED_TEST(Wrap, UnsignalledWritesCompleteWithTheNextSignalledOne) {
  constexpr size_t kWrites = 512;
  Pair pair(For<TypeParam>({.a = {.depth = 8}}));
  pair.Connect();
  Queue<TypeParam> queue(pair.a.View());
  for (size_t i = 0; i < kWrites; ++i) {
    pair.Source(i) = i + 1;
    const uint32_t flags = i % 4 == 3 ? mlx5::kCqeAlways : mlx5::kCqeOnError;
    const device::Posted posted =
        queue.Post(device::Write(pair.Remote(i * 8), pair.Local(i * 8, 8)), Within(), flags);
    ASSERT_EQ(posted.status.code, device::Code::kOk);
  }
  ASSERT_EQ(queue.Flush(Within()).code, device::Code::kOk);
  for (size_t i = 0; i < kWrites; ++i) EXPECT_EQ(pair.Target(i), i + 1);
}

}  // namespace
}  // namespace warpverbs::e2e
