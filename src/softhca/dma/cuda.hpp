#pragma once

#include <cstdint>
#include <memory>

#include "dma/device_memory.hpp"

namespace softhca::cuda {

/// Returns the GPU that owns a range, whether the range is one allocation or several adjacent mappings.
///
/// The set-up may wait for kernels, so callers must not hold the engine's lock.
///
/// @return  null if the program does not use CUDA, or the range is not memory of a single GPU
std::shared_ptr<DeviceMemory> GpuOf(uint64_t start, uint64_t bytes);

}  // namespace softhca::cuda
