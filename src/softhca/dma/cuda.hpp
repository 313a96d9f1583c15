#pragma once

#include <cstdint>
#include <memory>

#include "dma/device_memory.hpp"

namespace softhca::cuda {

/// Finds the GPU whose memory has all of a range, be it one allocation or several mappings side by side.
///
/// What it sets up may wait for kernels, so it is called without the engine's lock.
///
/// @return  null if the program uses no CUDA, or the range is not memory of one GPU
std::shared_ptr<DeviceMemory> GpuOf(uint64_t start, uint64_t bytes);

}  // namespace softhca::cuda
