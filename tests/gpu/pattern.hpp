#pragma once

#include <cstddef>
#include <cstdint>

namespace warpverbs::gpu {

/// Runs a kernel that fills GPU memory with bytes that depend on offset and round. Returns after the kernel
/// has ended.
void FillByKernel(int gpu, void* at, size_t bytes, uint64_t round);

/// Runs a kernel that counts the bytes of GPU memory that differ from those of a round.
uint64_t CountWrongByKernel(int gpu, const void* at, size_t bytes, uint64_t round);

}  // namespace warpverbs::gpu
