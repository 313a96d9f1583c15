#pragma once

#include <atomic>
#include <cstdint>

namespace warpverbs::inline v0_2::transport {

/// Returns the number of calls of operator new and aligned_alloc() in this program, except on softhca's
/// threads. Link count_allocations.cpp.
uint64_t Allocations();

}  // namespace warpverbs::inline v0_2::transport
