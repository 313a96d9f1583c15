#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "warpverbs/host/buffer.hpp"

/// Copies between buffers with the installed driver.
namespace warpverbs {
namespace {

constexpr size_t kSize = 3 * host::Buffer::kPieceBytes;

std::vector<std::byte> Pattern() {
  std::vector<std::byte> pattern(kSize);
  for (size_t i = 0; i < kSize; ++i) pattern[i] = static_cast<std::byte>((i * 7 + i / 251) & 0xff);
  return pattern;
}

/// Copies a part from and to odd offsets, and checks the whole target.
void ExpectCopy(const host::Buffer& from, const host::Buffer& to) {
  const std::vector<std::byte> pattern = Pattern();
  constexpr size_t kFrom = 4097, kTo = 3, kBytes = kSize - 5000;
  std::vector<std::byte> expected(kSize), got(kSize);
  from.CopyIn(0, pattern);
  to.CopyIn(0, expected);
  from.CopyTo(kFrom, to, kTo, kBytes);
  std::copy_n(pattern.begin() + kFrom, kBytes, expected.begin() + kTo);
  to.CopyOut(0, got);
  EXPECT_TRUE(got == expected) << from.name() << " to " << to.name();
}

TEST(Copies, ArriveOnOneGpuAndInHostMemory) {
  const host::Gpu gpu;
  const auto one = host::CudaMemoryKind(gpu).Allocate(kSize),
             other = host::CudaMemoryKind(gpu).Allocate(kSize),
             pinned = host::PinnedMemoryKind(gpu).Allocate(kSize),
             plain = host::HostMemoryKind().Allocate(kSize);
  ExpectCopy(*one, *other);
  ExpectCopy(*one, *pinned);
  ExpectCopy(*pinned, *one);
  ExpectCopy(*one, *plain);
  ExpectCopy(*plain, *one);
}

TEST(Copies, MoveOverlappingRangesLikeMemmove) {
  const auto buffer = host::CudaMemoryKind(host::Gpu()).Allocate(kSize);
  std::vector<std::byte> expected = Pattern(), got(kSize);
  buffer->CopyIn(0, expected);
  buffer->CopyTo(0, *buffer, 99, kSize - 99);
  std::copy_backward(expected.begin(), expected.end() - 99, expected.end());
  buffer->CopyOut(0, got);
  EXPECT_TRUE(got == expected);
}

TEST(Copies, ArriveOnAnotherGpu) {
  if (host::Gpu::Count() < 2) GTEST_SKIP() << "this machine has one GPU";
  const auto one = host::CudaMemoryKind(host::Gpu(0)).Allocate(kSize),
             other = host::CudaMemoryKind(host::Gpu(1)).Allocate(kSize);
  ExpectCopy(*one, *other);
  ExpectCopy(*other, *one);
}

}  // namespace
}  // namespace warpverbs
