// Encoding of every atomic, byte for byte, and its effect.
#include "warpverbs/device/atomics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden.hpp"
#include "test_nic.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using mlx5::ToBe32;
using mlx5::ToBe64;
using mlx5::WqeOpcode;

constexpr uint32_t kDepth = 4;
constexpr uint32_t kIndex = 0x1'23ff;  // the last slot: a WQE of two slots wraps to the first
constexpr uint32_t kPlain = 0;
constexpr auto k4Bytes = static_cast<uint32_t>(mlx5::AtomicOpmod::kExtended4);
constexpr auto k8Bytes = static_cast<uint32_t>(mlx5::AtomicOpmod::kExtended8);
constexpr RemoteMemory kRemote{0x1122'3344'5566'7788, ToBe32(0xaabbccdd)};
constexpr LocalMemory kFetched{0x99aa'bbcc'ddee'ff00, 0x1234, ToBe32(0x10203040)};
constexpr uint64_t kA = 0x0102'0304'0506'0708;
constexpr uint64_t kB = 0x1112'1314'1516'1718;
constexpr uint64_t kC = 0x2122'2324'2526'2728;
constexpr uint64_t kD = 0x3132'3334'3536'3738;

LocalMemory FetchedBytes(uint64_t bytes) { return {kFetched.addr, bytes, kFetched.lkey}; }

class AtomicImage : public testing::Test {
 protected:
  template <class Operation>
  std::string Encode(const Operation& operation) {
    RawSendQueue<arch::Cpu>(queue_.View()).Post(kIndex, operation);
    return SlotsFrom(queue_, kIndex, operation.Slots(queue_.View()));
  }

  template <class Operands>
  static Golden Image(WqeOpcode opcode, uint32_t opmod, const Operands& operands, uint64_t bytes) {
    return Golden(opcode, opmod).Add(SegmentOf(kRemote)).Add(operands).Add(SegmentOf(FetchedBytes(bytes)));
  }
  static std::string Masked8(uint64_t swap, uint64_t compare, uint64_t swap_mask, uint64_t compare_mask) {
    const mlx5::MaskedCompareSwap8Segment operands{ToBe64(swap), ToBe64(compare), ToBe64(swap_mask),
                                                   ToBe64(compare_mask)};
    return Image(WqeOpcode::kAtomicMaskedCs, k8Bytes, operands, 8).Bytes(kIndex, mlx5::kCqeOnError) +
           Golden(WqeOpcode::kNop).Bytes(kIndex + 2);
  }
  static std::string Masked4(uint32_t swap, uint32_t compare, uint32_t swap_mask, uint32_t compare_mask) {
    const mlx5::MaskedCompareSwap4Segment operands{ToBe32(swap), ToBe32(compare), ToBe32(swap_mask),
                                                   ToBe32(compare_mask)};
    return Image(WqeOpcode::kAtomicMaskedCs, k4Bytes, operands, 4).Bytes(kIndex);
  }
  static std::string MaskedAdd4(uint32_t add, uint32_t boundary) {
    const mlx5::MaskedFetchAdd4Segment operands{ToBe32(add), ToBe32(boundary), {}};
    return Image(WqeOpcode::kAtomicMaskedFa, k4Bytes, operands, 4).Bytes(kIndex);
  }
  static std::string MaskedAdd8(uint64_t add, uint64_t boundary) {
    const mlx5::MaskedFetchAdd8Segment operands{ToBe64(add), ToBe64(boundary)};
    return Image(WqeOpcode::kAtomicMaskedFa, k8Bytes, operands, 8).Bytes(kIndex);
  }

  TestQueue queue_{kDepth};
};

TEST_F(AtomicImage, EncodesPlainAtomicsOf8Bytes) {
  EXPECT_EQ(Encode(FetchAdd(kRemote, kA, kFetched)),
            Image(WqeOpcode::kAtomicFa, kPlain, mlx5::AtomicSegment{ToBe64(kA), {}}, 8).Bytes(kIndex));
  EXPECT_EQ(
      Encode(CompareSwap(kRemote, CompareSwapOperands<uint64_t>{.compare = kA, .swap = kB}, kFetched)),
      Image(WqeOpcode::kAtomicCs, kPlain, mlx5::AtomicSegment{ToBe64(kB), ToBe64(kA)}, 8).Bytes(kIndex));
}

TEST_F(AtomicImage, EncodesPlainAtomicsOf4BytesWithFullMasks) {
  EXPECT_EQ(Encode(FetchAdd(kRemote, uint32_t{7}, kFetched)), MaskedAdd4(7, 0));
  EXPECT_EQ(Encode(CompareSwap(kRemote, CompareSwapOperands<uint32_t>{.compare = 8, .swap = 9}, kFetched)),
            Masked4(9, 8, ~0U, ~0U));
}

TEST_F(AtomicImage, EncodesMaskedAtomicsOf4Bytes) {
  EXPECT_EQ(Encode(MaskedFetchAdd(kRemote, 7U, 0x80008000U, kFetched)), MaskedAdd4(7, 0x80008000));
  EXPECT_EQ(Encode(MaskedCompareSwap(kRemote, CompareSwapOperands<uint32_t>{1, 2, 3, 4}, kFetched)),
            Masked4(2, 1, 4, 3));
  EXPECT_EQ(Encode(Swap(kRemote, 5U, kFetched)), Masked4(5, 0, ~0U, 0));
  EXPECT_EQ(Encode(FetchAnd(kRemote, 0xffU, kFetched)), Masked4(0, 0, 0xffffff00, 0));
  EXPECT_EQ(Encode(FetchOr(kRemote, 0xffU, kFetched)), Masked4(0xff, 0, 0xff, 0));
  EXPECT_EQ(Encode(FetchXor(kRemote, 0xffU, kFetched)), MaskedAdd4(0xff, ~0U));
}

TEST_F(AtomicImage, EncodesMaskedAddsOf8BytesInOneSlot) {
  EXPECT_EQ(Encode(MaskedFetchAdd(kRemote, kA, kB, kFetched)), MaskedAdd8(kA, kB));
  EXPECT_EQ(Encode(FetchXor(kRemote, kA, kFetched)), MaskedAdd8(kA, ~uint64_t{0}));
}

TEST_F(AtomicImage, EncodesMaskedCompareSwapsOf8BytesInTwoSlotsAndANop) {
  EXPECT_EQ(Encode(MaskedCompareSwap(kRemote, CompareSwapOperands<uint64_t>{kA, kB, kC, kD}, kFetched)),
            Masked8(kB, kA, kD, kC));
  EXPECT_EQ(Encode(Swap(kRemote, kA, kFetched)), Masked8(kA, 0, ~uint64_t{0}, 0));
  EXPECT_EQ(Encode(FetchAnd(kRemote, kA, kFetched)), Masked8(0, 0, ~kA, 0));
  EXPECT_EQ(Encode(FetchOr(kRemote, kA, kFetched)), Masked8(kA, 0, kA, 0));
}

TEST_F(AtomicImage, FetchesIntoTheSinkWithoutALocalBuffer) {
  const LocalMemory sink{reinterpret_cast<uint64_t>(&queue_.control.sink), 8, kTestKey};
  const auto image = Golden(WqeOpcode::kAtomicFa)
                         .Add(SegmentOf(kRemote))
                         .Add(mlx5::AtomicSegment{ToBe64(kA), {}})
                         .Add(SegmentOf(sink))
                         .Bytes(kIndex);
  EXPECT_EQ(Encode(FetchAdd(kRemote, kA)), image);
}

TEST_F(AtomicImage, DumpsTheFetchedValueIfTheDeviceNeedsIt) {
  queue_.flags |= kDumpAfterRead;
  const auto dump = Golden(WqeOpcode::kDump).Add(SegmentOf(FetchedBytes(1)));
  EXPECT_EQ(Encode(FetchAdd(kRemote, kA, kFetched)),
            Image(WqeOpcode::kAtomicFa, kPlain, mlx5::AtomicSegment{ToBe64(kA), {}}, 8)
                    .Bytes(kIndex, mlx5::kCqeOnError) +
                dump.Bytes(kIndex + 1, mlx5::kCqeAlways | mlx5::kFence));
  const std::string swap = Encode(Swap(kRemote, kA, kFetched));
  EXPECT_EQ(swap.size(), 3 * mlx5::kWqebbBytes) << "the dump completes for the two slots";
  EXPECT_EQ(swap.substr(128), dump.Bytes(kIndex + 2, mlx5::kCqeAlways | mlx5::kFence));
  EXPECT_EQ(FetchAdd(kRemote, kA).Slots(queue_.View()), 1U) << "the sink needs no dump";
  EXPECT_EQ(Swap(kRemote, kA).Slots(queue_.View()), 3U);
}

/// The word after an atomic, and the fetched value.
template <class T>
struct Effect {
  T after;
  T fetched;
  bool operator==(const Effect&) const = default;
};

template <class T>
class AtomicEffect : public testing::Test {
 protected:
  static constexpr T kWord = static_cast<T>(0x8001'7fff'8001'7fff);
  static constexpr T kOther = static_cast<T>(0x0f0f'0f0f'0f0f'0f0f);

  /// Runs an atomic on a word between two others.
  template <class Make>
  Effect<T> Run(const Make& make) {
    T words[3] = {kOther, kWord, kOther};
    T fetched[2] = {0, kOther};
    TestQueue memory(kDepth);
    TestNic nic(memory);
    SendQueue<arch::Cpu, Exclusive> queue(memory.View());
    const Posted posted = queue.Post(make(Remote(words[1]), Local(fetched[0])));
    EXPECT_TRUE(posted.status.ok());
    while (nic.Step()) {
    }
    EXPECT_EQ(nic.violation(), "");
    EXPECT_TRUE(queue.Test(posted.ticket).ok());
    EXPECT_TRUE(words[0] == kOther && words[2] == kOther && fetched[1] == kOther)
        << "neighbouring bytes changed";
    return {words[1], fetched[0]};
  }
};

using Words = testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(AtomicEffect, Words);

TYPED_TEST(AtomicEffect, ChangesTheWordAndFetchesTheOldValue) {
  using T = TypeParam;
  constexpr T word = TestFixture::kWord, other = TestFixture::kOther, all = ~T{0};
  const auto run = [this](const auto& make) { return this->Run(make); };
  using R = const RemoteMemory&;
  using L = const LocalMemory&;
  const auto effect = [](T after) { return Effect<T>{after, word}; };

  EXPECT_EQ(run([](R r, L l) { return FetchAdd(r, other, l); }), effect(static_cast<T>(word + other)));
  EXPECT_EQ(run([](R r, L l) { return FetchAdd(r, all, l); }), effect(word - 1));
  EXPECT_EQ(run([](R r, L l) {
              return CompareSwap(r, CompareSwapOperands<T>{word, other}, l);
            }),
            effect(other));
  EXPECT_EQ(run([](R r, L l) {
              return CompareSwap(r, CompareSwapOperands<T>{word + 1, other}, l);
            }),
            effect(word));
  EXPECT_EQ(run([](R r, L l) { return Swap(r, other, l); }), effect(other));
  EXPECT_EQ(run([](R r, L l) { return FetchAnd(r, other, l); }), effect(word & other));
  EXPECT_EQ(run([](R r, L l) { return FetchOr(r, other, l); }), effect(word | other));
  EXPECT_EQ(run([](R r, L l) { return FetchXor(r, other, l); }), effect(word ^ other));
  EXPECT_EQ(run([](R r, L l) { return MaskedFetchAdd(r, T{1}, static_cast<T>(0x8000), l); }),
            effect(word + 1))
      << "0x7fff + 1 carries within the field";
  EXPECT_EQ(
      run([](R r, L l) { return MaskedFetchAdd(r, static_cast<T>(0x8001), static_cast<T>(0x8000), l); }),
      effect(word - 0x7fff))
      << "the carry out of the field is lost";
  EXPECT_EQ(run([](R r, L l) {
              return MaskedCompareSwap(r, CompareSwapOperands<T>{0xff, 0, 0xff, 0xf0}, l);
            }),
            effect(word & ~T{0xf0}));
  EXPECT_EQ(run([](R r, L l) {
              return MaskedCompareSwap(r, CompareSwapOperands<T>{0xfe, 0, 0xff, 0xf0}, l);
            }),
            effect(word));
}

TYPED_TEST(AtomicEffect, ChangesTheWordWithoutALocalBuffer) {
  EXPECT_EQ(this->Run([](const RemoteMemory& r, const LocalMemory&) { return Swap(r, TypeParam{5}); }).after,
            5U);
  EXPECT_EQ(
      this->Run([](const RemoteMemory& r, const LocalMemory&) { return FetchAdd(r, TypeParam{5}); }).after,
      static_cast<TypeParam>(TestFixture::kWord + 5));
}

}  // namespace
}  // namespace warpverbs::device
