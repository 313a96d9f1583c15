#pragma once

#include <cstdint>
#include <span>

/// Numbers and bytes that two processes derive from the same key, so that each knows what the other must have
/// written.
namespace soak {

/// Mixes the bits of a number, one to one.
///
/// @source  the finalizer of splitmix64
constexpr uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// Fills memory with a key's bytes, starting with byte `start`.
void Fill(std::span<uint8_t> memory, uint64_t key, uint64_t start = 0);
bool Matches(std::span<const uint8_t> memory, uint64_t key, uint64_t start = 0);

}  // namespace soak
