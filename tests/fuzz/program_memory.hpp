#pragma once

#include <cstdint>
#include <span>

/// What stands in for the memory of a program: a single range at a fixed address, so that an input may name
/// it.
namespace softhca::uverbs {

inline constexpr uint64_t kProgramMemory = 0x2000'0000'0000;
inline constexpr uint64_t kProgramMemoryBytes = 1 << 16;

/// The range itself, made with the first call.
std::span<uint8_t> ProgramMemory();

}  // namespace softhca::uverbs
