#pragma once

#include "warpverbs/arch/arch.hpp"

namespace warpverbs::arch {

/// Threads of an AMD GPU, from gfx90a. Queues and control words lie in uncached memory, and every order has
/// system scope: these GPUs promise nothing less to a NIC.
///
/// The lanes of a wavefront run in lockstep: one lane alone may post to a shared queue, the others would wait
/// for it.
///
/// @source  LLVM 14, AMDGPU Usage, "Memory Model"
struct Hip {
  WARPVERBS_DEVICE static mlx5::Be32 ToBe32(uint32_t x) { return {__builtin_bswap32(x)}; }
  WARPVERBS_DEVICE static mlx5::Be64 ToBe64(uint64_t x) { return {__builtin_bswap64(x)}; }

  WARPVERBS_DEVICE static void StoreSegment(uint8_t* segment, uint64_t low, uint64_t high) {
    *reinterpret_cast<Words*>(segment) = Words{low, high};
  }
  WARPVERBS_DEVICE static void StoreRelease(uint32_t* word, mlx5::Be32 value) {
    __atomic_store_n(word, value.raw, __ATOMIC_RELEASE);
  }
  WARPVERBS_DEVICE static void StoreReleaseMmio(uint64_t* doorbell, mlx5::Be64 value) {
    __atomic_store_n(doorbell, value.raw, __ATOMIC_RELEASE);
  }

  WARPVERBS_DEVICE static CqeTail LoadCqeTail(const uint8_t* tail) {
    const Words words = *reinterpret_cast<const volatile Words*>(tail);
    return {.low = words.x, .high = words.y};
  }
  WARPVERBS_DEVICE static void AcquireAfterCompletion() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }

  WARPVERBS_DEVICE static uint64_t Load(const uint64_t* word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
  }
  WARPVERBS_DEVICE static uint64_t LoadAcquire(const uint64_t* word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
  }
  WARPVERBS_DEVICE static void Store(uint64_t* word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
  }
  WARPVERBS_DEVICE static uint64_t CompareSwap(uint64_t* word, uint64_t expected, uint64_t desired) {
    __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
  }
  WARPVERBS_DEVICE static void AddRelease(uint64_t* word, uint64_t delta) {
    __atomic_fetch_add(word, delta, __ATOMIC_RELEASE);
  }

  WARPVERBS_DEVICE static uint64_t NowNs() {
    constexpr uint64_t kNsPerTick = 10;
    return __builtin_amdgcn_s_memrealtime() * kNsPerTick;
  }
  WARPVERBS_DEVICE static bool Pause(uint32_t) {
    __builtin_amdgcn_s_sleep(1);
    return false;
  }

 private:
  using Words = uint64_t __attribute__((ext_vector_type(2)));
};
static_assert(Arch<Hip>);

}  // namespace warpverbs::arch
