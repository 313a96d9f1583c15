#pragma once

#include <cstdint>
#include <span>

/// The memory of the fuzzed program: one range at a fixed address, which an input can name.
namespace softhca::uverbs {

inline constexpr uint64_t kProgramMemory = 0x2000'0000'0000;
inline constexpr uint64_t kProgramMemoryBytes = 1 << 16;

/// Returns the range; maps it on the first call.
std::span<uint8_t> ProgramMemory();

}  // namespace softhca::uverbs
