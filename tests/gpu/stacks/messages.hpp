#pragma once

#include <cstddef>
#include <cstdint>

/// The messages that two ranks exchange, which both know.
namespace stacks {

constexpr size_t kWords = 8;  // of a message

inline __host__ __device__ uint64_t Word(int sender, int round, size_t index) {
  return (index + 1) * 0x9E3779B97F4A7C15ull ^ (uint64_t(round) << 56) ^ uint64_t(sender);
}

static __global__ void Fill(uint64_t* words, int sender, int round, size_t count) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    words[i] = Word(sender, round, i);
  }
}

static __global__ void Compare(const uint64_t* words, int sender, int round, size_t count,
                               unsigned long long* wrong) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    if (words[i] != Word(sender, round, i)) atomicAdd(wrong, 1ull);
  }
}

}  // namespace stacks
