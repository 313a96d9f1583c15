#include "warpverbs/device/atomics.hpp"

#include <gtest/gtest.h>

#include "pair.hpp"

/// Tests the effect of 4- and 8-byte atomics at the peer, and the values that they fetch.
namespace warpverbs::e2e {
namespace {

using device::Code;

template <class Word>
class Atomics : public testing::Test {
 protected:
  static constexpr size_t kPlace = 24;  // in bytes; a 4-byte word is the second half of these 8 bytes
  static constexpr size_t kWord = sizeof(Word) == 4 ? kPlace + 4 : kPlace;
  static constexpr auto kBefore = static_cast<Word>(0x1122'3344'5566'7788);
  static constexpr Word kHigh = Word{1} << (8 * sizeof(Word) - 1);

  Atomics() { pair.Connect(); }

  device::RemoteMemory remote() const { return pair.Remote(kWord); }
  device::LocalMemory local() const { return pair.Local(kWord, sizeof(Word)); }

  /// Posts an operation on `before`. Expects `after` at the target, `before` fetched, and all other bytes
  /// unchanged.
  template <class Operation>
  void Expect(Word before, const Operation& operation, Word after, bool fetches = true) {
    for (size_t i = 0; i < 8; ++i) pair.Target(i) = pair.Source(i) = 0xa5a5'a5a5'a5a5'a5a5;
    pair.TargetAt<Word>(kWord) = before;
    const device::Posted posted = queue.Post(operation, Within());
    ASSERT_EQ(posted.status.code, Code::kOk);
    ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kOk);
    EXPECT_EQ(pair.TargetAt<Word>(kWord), after);
    if (fetches) {
      EXPECT_EQ(device::Fetched<Cpu>(pair.SourceAt<Word>(kWord)), before);
    }
    for (size_t i = 0; i < 64; ++i) {
      const bool inside = i >= kWord && i < kWord + sizeof(Word);
      if (!inside) {
        EXPECT_EQ(pair.TargetAt<uint8_t>(i), 0xa5) << "byte " << i << " of the target";
      }
      if (!inside || !fetches) {
        EXPECT_EQ(pair.SourceAt<uint8_t>(i), 0xa5) << "byte " << i << " of the source";
      }
    }
  }

  Pair pair{{.a = {.depth = 8}}};
  Queue<device::Exclusive> queue{pair.a.View()};
};
using Words = testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(Atomics, Words);

TYPED_TEST(Atomics, FetchAddAdds) {
  using T = TypeParam;
  this->Expect(37, device::FetchAdd<T>(this->remote(), 5, this->local()), 42);
  this->Expect(static_cast<T>(-1), device::FetchAdd<T>(this->remote(), 2, this->local()), 1);
  this->Expect(this->kBefore, device::FetchAdd<T>(this->remote(), this->kHigh, this->local()),
               this->kBefore + this->kHigh);
}

TYPED_TEST(Atomics, MaskedFetchAddCarriesNothingOutOfAField) {
  using T = TypeParam;
  const auto add = [&](T addend, T boundary) {
    return device::MaskedFetchAdd<T>(this->remote(), addend, boundary, this->local());
  };
  this->Expect(0x00ff, add(0x0101, 0x8080), 0x0100);
  this->Expect(0xff, add(1, 0x80), 0);
  this->Expect(0x7f, add(1, 0), 0x80);
}

TYPED_TEST(Atomics, CompareSwapSwapsOnlyOnAMatch) {
  using T = TypeParam;
  const auto swap = [&](T compare, T value) {
    return device::CompareSwap<T>(this->remote(), {.compare = compare, .swap = value}, this->local());
  };
  this->Expect(this->kBefore, swap(this->kBefore, 42), 42);
  this->Expect(this->kBefore, swap(this->kBefore ^ 1, 42), this->kBefore);
  this->Expect(this->kBefore, swap(this->kBefore ^ this->kHigh, 42), this->kBefore);
}

TYPED_TEST(Atomics, MaskedCompareSwapComparesAndSwapsOnlyItsBits) {
  using T = TypeParam;
  const auto swap = [&](T compare, T value, T compare_mask, T swap_mask) {
    const device::CompareSwapOperands<T> exchange{
        .compare = compare, .swap = value, .compare_mask = compare_mask, .swap_mask = swap_mask};
    return device::MaskedCompareSwap<T>(this->remote(), exchange, this->local());
  };
  this->Expect(0x1234, swap(0xff34, 0xabcd, 0x00ff, 0x0f0f), 0x1b3d);
  this->Expect(0x1234, swap(0xff35, 0xabcd, 0x00ff, 0x0f0f), 0x1234);
  this->Expect(0x1234 | this->kHigh, swap(this->kHigh, 0, this->kHigh, this->kHigh), 0x1234);
}

TYPED_TEST(Atomics, SwapReplacesAnyValue) {
  this->Expect(this->kBefore, device::Swap<TypeParam>(this->remote(), 42, this->local()), 42);
  this->Expect(0, device::Swap<TypeParam>(this->remote(), this->kHigh, this->local()), this->kHigh);
}

TYPED_TEST(Atomics, AndOrAndXorChangeTheirBits) {
  using T = TypeParam;
  constexpr auto kBits = static_cast<T>(0xff00'ff00'f0f0'0ff0);
  const T before = this->kBefore;
  this->Expect(before, device::FetchAnd<T>(this->remote(), kBits, this->local()), before & kBits);
  this->Expect(before, device::FetchOr<T>(this->remote(), kBits, this->local()), before | kBits);
  this->Expect(before, device::FetchXor<T>(this->remote(), kBits, this->local()), before ^ kBits);
  this->Expect(before, device::FetchXor<T>(this->remote(), ~T{0}, this->local()), static_cast<T>(~before));
}

TYPED_TEST(Atomics, WritesNoResultWhenNoneIsFetched) {
  using T = TypeParam;
  this->Expect(37, device::FetchAdd<T>(this->remote(), 5), 42, false);
  this->Expect(37, device::Swap<T>(this->remote(), 42), 42, false);
  this->Expect(1, device::CompareSwap<T>(this->remote(), {.compare = 1, .swap = 2}), 2, false);
  this->Expect(6, device::FetchOr<T>(this->remote(), 1), 7, false);
}

TYPED_TEST(Atomics, AddUpThroughAllSlots) {
  using T = TypeParam;
  constexpr uint32_t kRounds = 1000;
  for (uint32_t i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(this->queue.Post(device::FetchAdd<T>(this->remote(), 3), Within()).status.ok());
    ASSERT_TRUE(this->queue.Post(device::FetchXor<T>(this->remote(), this->kHigh), Within()).status.ok());
    ASSERT_TRUE(this->queue.Post(device::FetchAnd<T>(this->remote(), ~this->kHigh), Within()).status.ok());
  }
  ASSERT_EQ(this->queue.Flush(Within()).code, Code::kOk);
  EXPECT_EQ(this->pair.template TargetAt<T>(this->kWord), 3 * kRounds);
}

}  // namespace
}  // namespace warpverbs::e2e
