#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "warpverbs/gpuio/hf3fs_usrbio_gdr.h"
#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Writes a buffer's description into the 80 bytes of the C API: CUDA's handle, and in 128 bits the size, the
/// offset in the allocation, the GPU's PCI address, and a CRC-16 of all.
///
/// @return  empty: the buffer is larger than 2 TiB, or at a PCI address that has no domain, bus and device
std::optional<hf3fs_gpu_ipc_handle_t> ToHandle(const host::SharedMemoryInfo& info);

/// Reads what ToHandle() wrote.
///
/// @return  empty: damaged, or of no bytes
std::optional<host::SharedMemoryInfo> FromHandle(const hf3fs_gpu_ipc_handle_t& handle);

}  // namespace warpverbs::inline v0_2::gpuio
