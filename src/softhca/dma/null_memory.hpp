#pragma once

#include <cstddef>
#include <cstdint>

#include "dma/device_memory.hpp"

/// Memory behind the key of the null memory region: reads return zeros, and what is written vanishes. Copies
/// know it by its addresses, which no program can have.
namespace softhca {

inline constexpr uintptr_t kNullMemory = uintptr_t{1} << 63;

inline Bytes NullMemory(uint64_t bytes) {
  return {reinterpret_cast<uint8_t*>(kNullMemory),
          static_cast<size_t>(bytes)};  // NOLINT(performance-no-int-to-ptr)
}

inline bool IsNullMemory(const uint8_t* at) { return reinterpret_cast<uintptr_t>(at) >= kNullMemory; }

}  // namespace softhca
