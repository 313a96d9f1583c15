// Bytes that tell where they are from, made and compared by the processor that the memory belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "warpverbs/gpuio/hf3fs_usrbio.h"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/mlx5/endian.hpp"

/// Returns byte `index` of the pattern of a seed. All neighbours, pages and seeds differ.
WARPVERBS_HOST_DEVICE constexpr uint8_t PatternByte(uint64_t seed, uint64_t index) {
  uint64_t word = seed * 0x9e3779b97f4a7c15 + index / 8;  // by the mixing function of SplitMix64
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return static_cast<uint8_t>((word ^ (word >> 31)) >> (index % 8 * 8));
}

/// Memory of an iov, as a kernel sees it. Must not outlive the iov.
class PatternMemory {
 public:
  /// @errors  host::Error: the driver does not know the memory
  explicit PatternMemory(const hf3fs_iov& iov);

  /// Describes what fills and compares: "a kernel on cuda:0", or the processor.
  std::string worker() const;

  /// Sets the first bytes to a pattern. They have it when the call returns.
  void Fill(size_t bytes, uint64_t seed) const;

  /// Counts those of the first bytes that differ from a pattern.
  size_t CountWrong(size_t bytes, uint64_t seed) const;

 private:
  std::byte* data_;
  std::optional<int> kernels_on_;  ///< GPU whose kernels do it
  bool is_gpu_;
  std::unique_ptr<warpverbs::host::Buffer> buffer_;
};

/// Says whether this program has kernels. The functions below need one.
bool HasPatternKernels();
void FillByKernel(int gpu, std::byte* memory, size_t bytes, uint64_t seed);
size_t CountWrongByKernel(int gpu, const std::byte* memory, size_t bytes, uint64_t seed);
