#pragma once

#include <cstdint>

#include "warpverbs/device/status.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::gpu {

/// Writes all of a view to the beginning of another by a thread of the processor, and waits. What nvcc
/// compiles of the device headers is for kernels, so this is compiled without it.
device::Status WriteFromHost(const host::Endpoint& endpoint, const host::MemoryView& to,
                             const host::MemoryView& from, uint64_t timeout_ns);

}  // namespace warpverbs::gpu
