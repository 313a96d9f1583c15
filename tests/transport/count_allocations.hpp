#pragma once

#include <atomic>
#include <cstdint>

namespace warpverbs::transport {

/// How often anything in this program but softhca has called operator new or
/// aligned_alloc(). Link count_allocations.cpp.
uint64_t Allocations();

}  // namespace warpverbs::transport
