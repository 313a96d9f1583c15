#pragma once

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Says whether a GPU's memory can be registered here: there is a GPU, a NIC with an active port, and one
/// trial succeeds.
///
/// Finds out once. Never throws.
bool IsGpuMemoryAvailable() noexcept;

}  // namespace warpverbs::inline v0_2::gpuio
