#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca {

/// A piece of a program's memory. A null pointer means that there is none.
using Bytes = std::span<uint8_t>;

/// Total length of a gather or scatter list.
inline uint64_t TotalBytes(std::span<const Bytes> list) {
  uint64_t total = 0;
  for (const Bytes& piece : list) total += piece.size();
  return total;
}

}  // namespace softhca
