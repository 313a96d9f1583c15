#pragma once

#include <cstdint>

namespace warpverbs::inline v0_2::host {

/// A range of whole pages.
struct PageRange {
  uint64_t start;
  uint64_t bytes;

  /// Returns the smallest range of pages around a range. It may end at 2^64.
  ///
  /// @param page  a power of two
  static constexpr PageRange Around(uint64_t address, uint64_t bytes, uint64_t page) {
    const uint64_t start = address & ~(page - 1);
    const uint64_t head = address - start;
    return {start, (head + bytes + page - 1) & ~(page - 1)};
  }
};

}  // namespace warpverbs::inline v0_2::host
