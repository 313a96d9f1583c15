#pragma once

#include <cstdint>

#include "warpverbs/device/status.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::gpu {

/// Writes all of `from` to the beginning of `to` from a CPU thread, and waits. nvcc compiles the device
/// headers for kernels only, so the host compiler compiles this function.
device::Status WriteFromHost(const host::Endpoint& endpoint, const host::MemoryView& to,
                             const host::MemoryView& from, uint64_t timeout_ns);

}  // namespace warpverbs::gpu
