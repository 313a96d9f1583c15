#include "dma/copy.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace softhca {
namespace {

/// Programs poll single words that a NIC writes; such a word must arrive whole and after what was written
/// before it.
void CopyPiece(uint8_t* to, const uint8_t* from, size_t bytes) {
  const bool aligned = reinterpret_cast<uintptr_t>(to) % bytes == 0;
  if (bytes == 8 && aligned) {
    uint64_t word;
    std::memcpy(&word, from, sizeof word);
    std::atomic_ref(*reinterpret_cast<uint64_t*>(to)).store(word, std::memory_order_release);
  } else if (bytes == 4 && aligned) {
    uint32_t word;
    std::memcpy(&word, from, sizeof word);
    std::atomic_ref(*reinterpret_cast<uint32_t*>(to)).store(word, std::memory_order_release);
  } else {
    std::memmove(to, from, bytes);  // source and target may be the same registered range
  }
}

}  // namespace

void Copy(std::span<const Bytes> to, std::span<const Bytes> from) {
  size_t to_index = 0, from_index = 0, to_offset = 0, from_offset = 0;
  while (to_index < to.size() && from_index < from.size()) {
    const size_t bytes = std::min(to[to_index].size() - to_offset, from[from_index].size() - from_offset);
    if (bytes != 0) CopyPiece(to[to_index].data() + to_offset, from[from_index].data() + from_offset, bytes);
    to_offset += bytes;
    from_offset += bytes;
    if (to_offset == to[to_index].size()) ++to_index, to_offset = 0;
    if (from_offset == from[from_index].size()) ++from_index, from_offset = 0;
  }
}

}  // namespace softhca
