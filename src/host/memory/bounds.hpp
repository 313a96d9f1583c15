#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace warpverbs::host {

/// Whether a range lies in the first `whole` bytes; one without bytes may lie at their end.
constexpr bool LiesWithin(uint64_t offset, uint64_t bytes, uint64_t whole) {
  return offset <= whole && bytes <= whole - offset;
}

/// @param what  that has `whole` bytes
[[noreturn]] inline void ThrowOutside(const std::string& what, uint64_t offset, uint64_t bytes,
                                      uint64_t whole) {
  throw std::out_of_range(what + ": " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                          " do not lie within " + std::to_string(whole) + " bytes");
}

}  // namespace warpverbs::host
