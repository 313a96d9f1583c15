#pragma once

#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::inline v0_2::host {

/// Remembers that this process shares a range by IPC.
///
/// @errors  std::bad_alloc
void RememberSharedHere(const SharedMemoryInfo& info);

/// Returns whether this process has shared exactly this range, in the same allocation. The allocation may
/// have been freed since.
bool IsSharedHere(const SharedMemoryInfo& info);

}  // namespace warpverbs::inline v0_2::host
