#include "integers.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

namespace rdma_demo {
namespace {

/// Calls `work` for a slot piece by piece, so that the copies on this side stay small.
///
/// @param work  gets where a piece begins in the memory, the index of its first integer, and room for it
void ForEachPiece(const Slot& slot,
                  const std::function<void(uint64_t offset, uint64_t index, std::span<int32_t>)>& work) {
  constexpr uint64_t kMost = uint64_t{1} << 18;
  const uint64_t count = slot.bytes / sizeof(int32_t);
  std::vector<int32_t> room(std::min(count, kMost));
  for (uint64_t index = 0; index < count; index += kMost) {
    work(slot.offset + index * sizeof(int32_t), index, std::span(room).first(std::min(kMost, count - index)));
  }
}

std::string InWords(const Row& row, uint64_t count) {
  std::string words = std::to_string(row.At(0));
  if (count > 1) words += ", " + std::to_string(row.At(1));
  if (count > 2) words += " .. " + std::to_string(row.At(count - 1));
  return words + ": all " + std::to_string(count) + " integers are right";
}

}  // namespace

void Fill(const Memory& memory, const Slot& slot, const Row& row) {
  ForEachPiece(slot, [&](uint64_t offset, uint64_t index, std::span<int32_t> room) {
    for (size_t i = 0; i < room.size(); ++i) room[i] = row.At(index + i);
    memory.Write(offset, std::as_bytes(room));
  });
}

void Clear(const Memory& memory, const Slot& slot) { Fill(memory, slot, {.first = -1, .step = 0}); }

std::string Verify(const Memory& memory, const Slot& slot, const Row& row) {
  uint64_t wrong = 0;
  std::string first_wrong;
  ForEachPiece(slot, [&](uint64_t offset, uint64_t index, std::span<int32_t> room) {
    memory.Read(offset, std::as_writable_bytes(room));
    for (size_t i = 0; i < room.size(); ++i) {
      const int32_t expected = row.At(index + i);
      if (room[i] == expected || wrong++ != 0) continue;
      first_wrong = "integer " + std::to_string(index + i) + " is " + std::to_string(room[i]) + ", not " +
                    std::to_string(expected);
    }
  });
  const uint64_t count = slot.bytes / sizeof(int32_t);
  if (wrong == 0) return InWords(row, count);
  throw std::runtime_error("The data are wrong: " + first_wrong + "; " + std::to_string(wrong) + " of " +
                           std::to_string(count) + " are wrong. Check what the peer says it did.");
}

}  // namespace rdma_demo
