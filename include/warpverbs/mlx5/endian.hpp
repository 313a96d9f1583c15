#pragma once

#include <bit>
#include <cstdint>

/// Integers in wire order, as types of their own: a plain integer never lands in a queue by mistake.
namespace warpverbs::inline v0_2::mlx5 {

static_assert(std::endian::native == std::endian::little, "warpverbs targets little-endian processors");

/// A 16-bit integer as it lies in memory, most significant byte first.
struct Be16 {
  uint16_t raw;
  friend constexpr bool operator==(Be16, Be16) = default;
};

/// A 32-bit integer as it lies in memory, most significant byte first.
struct Be32 {
  uint32_t raw;
  friend constexpr bool operator==(Be32, Be32) = default;
};

/// A 64-bit integer as it lies in memory, most significant byte first.
struct Be64 {
  uint64_t raw;
  friend constexpr bool operator==(Be64, Be64) = default;
};

// Host-side conversions; device code converts with its arch (`A::ToBe32`), which knows its own byte swap.
constexpr uint16_t FromBe(Be16 x) { return __builtin_bswap16(x.raw); }
constexpr uint32_t FromBe(Be32 x) { return __builtin_bswap32(x.raw); }
constexpr uint64_t FromBe(Be64 x) { return __builtin_bswap64(x.raw); }
constexpr Be16 ToBe16(uint16_t x) { return {__builtin_bswap16(x)}; }
constexpr Be32 ToBe32(uint32_t x) { return {__builtin_bswap32(x)}; }
constexpr Be64 ToBe64(uint64_t x) { return {__builtin_bswap64(x)}; }

}  // namespace warpverbs::inline v0_2::mlx5
