#pragma once

#include <bit>
#include <cstdint>

// WARPVERBS_DEVICE marks the functions that kernels call, WARPVERBS_HOST_DEVICE those that the host calls,
// too. This is the lowest header, so it defines them. A C++ compiler only inlines both kinds, which halves
// the cost of a post: the same source then runs on CPU threads.
#ifndef WARPVERBS_INLINE
#define WARPVERBS_INLINE __attribute__((always_inline)) inline
#endif
#if defined(__CUDACC__) || defined(__CUDA__) || defined(__HIP__)
#define WARPVERBS_DEVICE __attribute__((device)) WARPVERBS_INLINE
#define WARPVERBS_HOST_DEVICE __attribute__((host)) WARPVERBS_DEVICE
#else
#define WARPVERBS_DEVICE WARPVERBS_INLINE
#define WARPVERBS_HOST_DEVICE WARPVERBS_INLINE
#endif

/// Integers in wire order. No plain integer converts to one: code that means the bytes in memory says
/// `Be32{x}`, code that means the value says `ToBe32(x)`.
namespace warpverbs::inline v0_2::mlx5 {

static_assert(std::endian::native == std::endian::little, "warpverbs targets little-endian processors");

/// A 16-bit integer as memory holds it, most significant byte first.
struct Be16 {
  uint16_t raw;
  Be16() = default;
  WARPVERBS_HOST_DEVICE constexpr explicit Be16(uint16_t in_memory) : raw(in_memory) {}
  friend constexpr bool operator==(Be16, Be16) = default;
};

/// A 32-bit integer as memory holds it, most significant byte first.
struct Be32 {
  uint32_t raw;
  Be32() = default;
  WARPVERBS_HOST_DEVICE constexpr explicit Be32(uint32_t in_memory) : raw(in_memory) {}
  friend constexpr bool operator==(Be32, Be32) = default;
};

/// A 64-bit integer as memory holds it, most significant byte first.
struct Be64 {
  uint64_t raw;
  Be64() = default;
  WARPVERBS_HOST_DEVICE constexpr explicit Be64(uint64_t in_memory) : raw(in_memory) {}
  friend constexpr bool operator==(Be64, Be64) = default;
};

// Conversions for the host. Device code converts with its arch (`A::ToBe32`), which knows its own byte swap.
constexpr uint16_t FromBe(Be16 x) { return __builtin_bswap16(x.raw); }
constexpr uint32_t FromBe(Be32 x) { return __builtin_bswap32(x.raw); }
constexpr uint64_t FromBe(Be64 x) { return __builtin_bswap64(x.raw); }
constexpr Be16 ToBe16(uint16_t x) { return Be16{__builtin_bswap16(x)}; }
constexpr Be32 ToBe32(uint32_t x) { return Be32{__builtin_bswap32(x)}; }
constexpr Be64 ToBe64(uint64_t x) { return Be64{__builtin_bswap64(x)}; }

}  // namespace warpverbs::inline v0_2::mlx5
