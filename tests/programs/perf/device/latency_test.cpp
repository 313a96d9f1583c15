#include "perf/device/latency.hpp"

#include <gtest/gtest.h>

#include <array>

#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::perf {
namespace {

using arch::Cpu;

TEST(WriteInlineMark, EncodesAnySizeAcrossTheEndOfTheQueue) {
  constexpr uint32_t kDepth = 4, kLast = 3;
  for (uint32_t bytes = 1; bytes <= kMaxInlineBytes; ++bytes) {
    alignas(64) std::array<uint8_t, kDepth * mlx5::kWqebbBytes> queue{};
    queue.fill(0xee);
    device::QueueView view{};
    view.sq = queue.data();
    view.depth = kDepth;
    const WriteInlineMark write{{0x1122334455667788, mlx5::ToBe32(0x99aabbcc)}, bytes, 0x5a};
    write.Encode<Cpu>(view, kLast, 0);
    const auto wqe = [&](uint32_t i) {
      return uint32_t{queue[(kLast * mlx5::kWqebbBytes + i) % queue.size()]};
    };
    const uint32_t segments = 2 + (4 + bytes + mlx5::kSegmentBytes - 1) / mlx5::kSegmentBytes;
    EXPECT_EQ(wqe(7) & 0x3f, segments) << bytes;
    EXPECT_EQ(write.Slots(view), segments <= 4 ? 1u : 3u) << bytes;
    EXPECT_EQ(wqe(16), 0x11U);
    EXPECT_EQ(wqe(24), 0x99U);
    EXPECT_EQ(wqe(32), 0x80U);
    EXPECT_EQ(wqe(35), bytes);
    for (uint32_t i = 0; i < bytes; ++i)
      EXPECT_EQ(wqe(36 + i), i + 1 == bytes ? 0x5aU : 0U) << bytes << " " << i;
    if (segments <= 4) {
      EXPECT_EQ(wqe(64), 0xeeU) << "the second slot is untouched";
    }
  }
}

}  // namespace
}  // namespace warpverbs::perf
