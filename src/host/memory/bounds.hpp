#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace warpverbs::inline v0_2::host {

/// Returns whether a range is within the first `whole` bytes. An empty range may be at their end.
constexpr bool IsWithin(uint64_t offset, uint64_t bytes, uint64_t whole) {
  return offset <= whole && bytes <= whole - offset;
}

/// @param name  the memory, which has `whole` bytes
[[noreturn]] inline void ThrowOutOfRange(const std::string& name, uint64_t offset, uint64_t bytes,
                                         uint64_t whole) {
  throw std::out_of_range(name + ": " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                          " are not within " + std::to_string(whole) + " bytes");
}

}  // namespace warpverbs::inline v0_2::host
