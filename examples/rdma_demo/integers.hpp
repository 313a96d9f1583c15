// Rows of integers that one side writes and the other expects.
#pragma once

#include <cstdint>
#include <string>

#include "memory.hpp"

namespace rdma_demo {

/// The n-th 4-byte integer, from 0, is first + n * step.
struct Row {
  int32_t first = 0;
  int32_t step = 1;

  int32_t At(uint64_t index) const { return first + step * static_cast<int32_t>(index); }
};

/// Part of a side's memory.
struct Slot {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

void Fill(const Memory& memory, const Slot& slot, const Row& row);

/// Lets no integer there be right by accident.
void Clear(const Memory& memory, const Slot& slot);

/// Throws std::runtime_error, which names the first that is wrong and how many are, unless all are right.
///
/// @return  "200, 202 .. 2097350: all 1048576 integers are right"
std::string Verify(const Memory& memory, const Slot& slot, const Row& row);

}  // namespace rdma_demo
