#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/connected_pair.hpp"

namespace softhca {
namespace {

using mlx5::QpState;
using mlx5::Syndrome;
using mlx5::ToBe32;
using mlx5::ToBe64;
using mlx5::WqeOpcode;

class AtomicsTest : public ConnectedPair {
 protected:
  WqeBuilder To(WqeOpcode opcode, size_t offset = 0, uint8_t opmod = 0) {
    return WqeBuilder(opcode, opmod).Remote(remote.Address(offset), remote.key);
  }
  WqeBuilder FetchAdd(size_t offset, uint64_t add) {
    return To(WqeOpcode::kAtomicFa, offset)
        .Add(mlx5::AtomicSegment{ToBe64(add), {}})
        .Data(local.Address(), 8, local.key);
  }
};

TEST_F(AtomicsTest, FetchAddReturnsTheOldValue) {
  Connect();
  remote.As<uint64_t>(8) = 40;
  EXPECT_EQ(Complete(a, FetchAdd(8, 2)).bytes, 8u);
  EXPECT_EQ(local.As<uint64_t>(), 40u);
  EXPECT_EQ(remote.As<uint64_t>(8), 42u);
}

TEST_F(AtomicsTest, CompareSwapSwapsOnlyOnAMatch) {
  Connect();
  remote.As<uint64_t>() = 5;
  const auto swap = [&](uint64_t compare, uint64_t by) {
    Complete(a, To(WqeOpcode::kAtomicCs)
                    .Add(mlx5::AtomicSegment{ToBe64(by), ToBe64(compare)})
                    .Data(local.Address(), 8, local.key));
    return local.As<uint64_t>();
  };
  EXPECT_EQ(swap(4, 9), 5u);
  EXPECT_EQ(remote.As<uint64_t>(), 5u);
  EXPECT_EQ(swap(5, 9), 5u);
  EXPECT_EQ(remote.As<uint64_t>(), 9u);
}

TEST_F(AtomicsTest, MaskedCompareSwapComparesAndSwapsUnderItsMasks) {
  Connect();
  remote.As<uint64_t>() = 0x1122334455667788;
  Complete(a, To(WqeOpcode::kAtomicMaskedCs, 0, kExtended8)
                  .Add(mlx5::MaskedCompareSwap8Segment{ToBe64(0xaaaaaaaaaaaaaaaa), ToBe64(0x88),
                                                       ToBe64(0xffff0000), ToBe64(0xff)})
                  .Data(local.Address(), 8, local.key));
  EXPECT_EQ(local.As<uint64_t>(), 0x1122334455667788u);
  EXPECT_EQ(remote.As<uint64_t>(), 0x11223344aaaa7788u);

  remote.As<uint32_t>(16) = 0x11223344;
  remote.As<uint32_t>(20) = 0x55555555;
  Complete(a, To(WqeOpcode::kAtomicMaskedCs, 16, kExtended4)
                  .Add(mlx5::MaskedCompareSwap4Segment{ToBe32(0xaaaaaaaa), ToBe32(0x11000000), ToBe32(0xff),
                                                       ToBe32(0xff000000)})
                  .Data(local.Address(), 4, local.key));
  EXPECT_EQ(local.As<uint32_t>(), 0x44332211u) << "4 bytes come big-endian";
  EXPECT_EQ(remote.As<uint32_t>(16), 0x112233aau);
  EXPECT_EQ(remote.As<uint32_t>(20), 0x55555555u) << "the neighbour stays";
}

TEST_F(AtomicsTest, MaskedFetchAddKeepsItsFieldsApart) {
  Connect();
  const auto add8 = [&](uint64_t old, uint64_t by, uint64_t boundary) {
    remote.As<uint64_t>() = old;
    Complete(a, To(WqeOpcode::kAtomicMaskedFa, 0, kExtended8)
                    .Add(mlx5::MaskedFetchAdd8Segment{ToBe64(by), ToBe64(boundary)})
                    .Data(local.Address(), 8, local.key));
    return remote.As<uint64_t>();
  };
  EXPECT_EQ(add8(0xffffffff, 1, 0), 0x100000000u) << "no boundary, one field";
  EXPECT_EQ(add8(0x00ff'00ff, 0x0001'0001, 0x8000'8000), 0x0100'0100u);
  EXPECT_EQ(add8(0xffff'ffff, 0x0001'0001, 0x8000'8000), 0u) << "carries of both fields are dropped";
  EXPECT_EQ(add8(0xffff'0000, 0x0002'0001, 0x8000'8000), 0x0001'0001u);
  EXPECT_EQ(add8(~uint64_t{0}, 1, uint64_t{1} << 63), 0u);

  remote.As<uint32_t>(4) = 0x77777777;
  remote.As<uint32_t>(0) = 0xff;
  Complete(a, To(WqeOpcode::kAtomicMaskedFa, 0, kExtended4)
                  .Add(mlx5::MaskedFetchAdd4Segment{ToBe32(0x101), ToBe32(0x80), {}})
                  .Data(local.Address(), 4, local.key));
  EXPECT_EQ(remote.As<uint32_t>(0), 0x100u);
  EXPECT_EQ(remote.As<uint32_t>(4), 0x77777777u);
}

TEST_F(AtomicsTest, StaysAtomicAgainstTheProcessor) {
  constexpr int kRounds = 20000;
  Connect();
  std::atomic_ref counter(remote.As<uint64_t>());
  std::thread processor([&] {
    for (int i = 0; i < kRounds; ++i) counter.fetch_add(1, std::memory_order_relaxed);
  });
  for (int i = 0; i < kRounds; ++i) {
    a.Post(FetchAdd(0, 1).Flags(mlx5::kCqeOnError));
    requester.Run(a.qp(), now_ns);
  }
  processor.join();
  EXPECT_EQ(counter.load(), 2u * kRounds);
}

TEST_F(AtomicsTest, RefusesMisalignedAddresses) {
  Connect();
  EXPECT_EQ(Complete(a, FetchAdd(4, 1)).syndrome, Syndrome::kRemoteInvalidRequest);
  EXPECT_EQ(a.qp().state, QpState::kError);
  EXPECT_EQ(b.qp().state, QpState::kError);
  EXPECT_EQ(b.events, std::vector{QpEvent::kInvalidRequest});
}

}  // namespace
}  // namespace softhca
