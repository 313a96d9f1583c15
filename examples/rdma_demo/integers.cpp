#include "integers.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

namespace rdma_demo {
namespace {

/// Calls `work` for each piece of a slot, so that copies on this side stay small.
///
/// @param work  receives the piece's offset in the memory, the index of its first integer, and a buffer for
/// it
void ForEachPiece(const Slot& slot,
                  const std::function<void(uint64_t offset, uint64_t index, std::span<int32_t>)>& work) {
  constexpr uint64_t kPieceIntegers = uint64_t{1} << 18;
  const uint64_t count = slot.bytes / sizeof(int32_t);
  std::vector<int32_t> piece(std::min(count, kPieceIntegers));
  for (uint64_t index = 0; index < count; index += kPieceIntegers) {
    work(slot.offset + index * sizeof(int32_t), index,
         std::span(piece).first(std::min(kPieceIntegers, count - index)));
  }
}

std::string Describe(const Sequence& sequence, uint64_t count) {
  std::string text = std::to_string(sequence.At(0));
  if (count > 1) text += ", " + std::to_string(sequence.At(1));
  if (count > 2) text += " .. " + std::to_string(sequence.At(count - 1));
  return text + ": all " + std::to_string(count) + " integers are right";
}

}  // namespace

void Fill(const Memory& memory, const Slot& slot, const Sequence& sequence) {
  ForEachPiece(slot, [&](uint64_t offset, uint64_t index, std::span<int32_t> piece) {
    for (size_t i = 0; i < piece.size(); ++i) piece[i] = sequence.At(index + i);
    memory.Write(offset, std::as_bytes(piece));
  });
}

void Clear(const Memory& memory, const Slot& slot) { Fill(memory, slot, {.first = -1, .step = 0}); }

std::string Verify(const Memory& memory, const Slot& slot, const Sequence& sequence) {
  uint64_t wrong = 0;
  std::string first_wrong;
  ForEachPiece(slot, [&](uint64_t offset, uint64_t index, std::span<int32_t> piece) {
    memory.Read(offset, std::as_writable_bytes(piece));
    for (size_t i = 0; i < piece.size(); ++i) {
      const int32_t expected = sequence.At(index + i);
      if (piece[i] == expected || wrong++ != 0) continue;
      first_wrong = "integer " + std::to_string(index + i) + " is " + std::to_string(piece[i]) + ", not " +
                    std::to_string(expected);
    }
  });
  const uint64_t count = slot.bytes / sizeof(int32_t);
  if (wrong == 0) return Describe(sequence, count);
  throw std::runtime_error("The data are wrong: " + first_wrong + "; " + std::to_string(wrong) + " of " +
                           std::to_string(count) + " are wrong. Check the output of the peer.");
}

}  // namespace rdma_demo
