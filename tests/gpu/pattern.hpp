#pragma once

#include <cstddef>
#include <cstdint>

namespace warpverbs::gpu {

/// Fills memory of a GPU with bytes that differ from place to place and from round to round, by a kernel. The
/// kernel has ended when it returns.
void FillByKernel(int gpu, void* at, size_t bytes, uint64_t round);

/// How many bytes in memory of a GPU are not those of a round, as a kernel sees them that is launched now.
uint64_t CountWrongByKernel(int gpu, const void* at, size_t bytes, uint64_t round);

}  // namespace warpverbs::gpu
