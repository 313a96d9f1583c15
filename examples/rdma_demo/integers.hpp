// Sequences of integers that one side writes and the other expects.
#pragma once

#include <cstdint>
#include <string>

#include "memory.hpp"

namespace rdma_demo {

/// 4-byte integers: integer n, from 0, is first + n * step.
struct Sequence {
  int32_t first = 0;
  int32_t step = 1;

  int32_t At(uint64_t index) const { return first + step * static_cast<int32_t>(index); }
};

/// Part of the memory of one side.
struct Slot {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// Writes a sequence to a slot.
void Fill(const Memory& memory, const Slot& slot, const Sequence& sequence);

/// Overwrites the slot, so that no integer is right by accident.
void Clear(const Memory& memory, const Slot& slot);

/// Compares a slot with the expected integers.
///
/// @return  "200, 202 .. 2097350: all 1048576 integers are right"
/// @errors  std::runtime_error: names the first wrong integer, and the number of wrong ones
std::string Verify(const Memory& memory, const Slot& slot, const Sequence& sequence);

}  // namespace rdma_demo
