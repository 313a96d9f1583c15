#pragma once

#include "warpverbs/arch/arch.hpp"

namespace warpverbs::inline v0_2::arch {

/// Threads of an AMD GPU, from gfx90a. Queues and control words are in uncached memory, and all order has
/// system scope: these GPUs guarantee a NIC nothing with less.
///
/// The lanes of a wavefront run in lockstep. From gfx10 on a wavefront has 32 lanes, and Shuffle() reaches no
/// further.
///
/// @source  LLVM 14, AMDGPU Usage, "Memory Model"
struct Hip {
  static constexpr Scope kReleaseScope = Scope::kSystem;

  WARPVERBS_DEVICE static mlx5::Be32 ToBe32(uint32_t x) { return mlx5::Be32{__builtin_bswap32(x)}; }
  WARPVERBS_DEVICE static mlx5::Be64 ToBe64(uint64_t x) { return mlx5::Be64{__builtin_bswap64(x)}; }
  WARPVERBS_DEVICE static mlx5::Be32 ToBe32(uint32_t first, uint32_t middle, uint32_t last) {
    return ToBe32(first << 24 | (middle & 0xffff) << 8 | last);
  }
  WARPVERBS_DEVICE static uint64_t Join(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

  WARPVERBS_DEVICE static void StoreSegment(uint8_t* segment, uint64_t low, uint64_t high) {
    *reinterpret_cast<Words*>(segment) = Words{low, high};
  }
  WARPVERBS_DEVICE static void StoreSegmentIf(bool stores, uint8_t* segment, uint64_t low, uint64_t high) {
    if (stores) StoreSegment(segment, low, high);
  }
  template <std::unsigned_integral T>
  WARPVERBS_DEVICE static void StoreRelease(T* word, std::type_identity_t<T> value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
  }
  /// Stores one lane after the other: lanes that ring in one step lose doorbells, even of different
  /// registers.
  ///
  /// @source  ROCm/mori 624002c8, cco_scale_out.hpp
  WARPVERBS_DEVICE static void StoreReleaseMmio(uint64_t* doorbell, mlx5::Be64 value, Mmio) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
    for (LaneMask left = ActiveLanes(); left != 0; left &= left - 1) {
      if (static_cast<uint32_t>(__builtin_ctzll(left)) == Lane())
        __atomic_store_n(doorbell, value.raw, __ATOMIC_RELAXED);
    }
  }

  WARPVERBS_DEVICE static void Release() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, ""); }
  WARPVERBS_DEVICE static void StoreReleased(uint32_t* word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
  }

  WARPVERBS_DEVICE static CqeTail LoadCqeTail(const uint8_t* tail) {
    const Words words = *reinterpret_cast<const volatile Words*>(tail);
    return {.low = words.x, .high = words.y};
  }
  WARPVERBS_DEVICE static void AcquireAfterCompletion() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, ""); }

  WARPVERBS_DEVICE static uint64_t Load(const uint64_t* word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
  }
  WARPVERBS_DEVICE static uint32_t Load32(const uint32_t* word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
  }
  WARPVERBS_DEVICE static uint64_t LoadAcquire(const uint64_t* word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
  }
  WARPVERBS_DEVICE static void Store(uint64_t* word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
  }
  WARPVERBS_DEVICE static uint64_t Add(uint64_t* word, uint64_t value) {
    return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
  }
  WARPVERBS_DEVICE static void AddReleased(uint64_t* word, uint64_t value) {
    __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
  }
  WARPVERBS_DEVICE static uint64_t CompareSwap(uint64_t* word, uint64_t expected, uint64_t desired) {
    __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
  }
  WARPVERBS_DEVICE static uint32_t CompareSwap32(uint32_t* word, uint32_t expected, uint32_t desired) {
    __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
  }

  static constexpr bool kLockstep = true;
  WARPVERBS_DEVICE static uint32_t Lane() {
    return __builtin_amdgcn_mbcnt_hi(~0U, __builtin_amdgcn_mbcnt_lo(~0U, 0));
  }
  WARPVERBS_DEVICE static uint32_t Keep(uint32_t value) { return value; }
  WARPVERBS_DEVICE static uint32_t OpaqueZero() { return 0; }
  WARPVERBS_DEVICE static LaneMask ActiveLanes() { return Ballot(~LaneMask{0}, true); }
  WARPVERBS_DEVICE static LaneMask WarpLanes() { return ActiveLanes(); }
  WARPVERBS_DEVICE static void SyncLanes(LaneMask) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
  }
  /// Hides the vote from the compiler: if it knew that it is true, it would read 64 bits of EXEC for a
  /// wavefront of 32 lanes.
  WARPVERBS_DEVICE static LaneMask Ballot(LaneMask mask, bool vote) {
    constexpr int kNotEqual = 33;
    uint32_t hidden = vote ? 1 : 0;
    asm volatile("" : "+v"(hidden));
    return __builtin_amdgcn_uicmp(hidden, 0, kNotEqual) & mask;
  }
  WARPVERBS_DEVICE static uint32_t Shuffle(LaneMask, uint32_t value, uint32_t lane) {
    return __builtin_amdgcn_ds_bpermute(static_cast<int>(lane * sizeof value), value);
  }
  WARPVERBS_DEVICE static uint64_t Shuffle(LaneMask mask, uint64_t value, uint32_t lane) {
    const uint64_t high = Shuffle(mask, static_cast<uint32_t>(value >> 32), lane);
    return high << 32 | Shuffle(mask, static_cast<uint32_t>(value), lane);
  }
  WARPVERBS_DEVICE static void SyncBlock() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  }
  WARPVERBS_DEVICE static bool AllOfBlock(bool mine) {
    static __attribute__((shared)) uint32_t vetoes;
    if (BlockRank() == 0) vetoes = 0;
    SyncBlock();
    if (!mine) vetoes = 1;
    SyncBlock();
    const bool all = vetoes == 0;
    SyncBlock();  // all have read it: the next call may begin
    return all;
  }
  WARPVERBS_DEVICE static uint64_t ShareInBlock(uint64_t value, bool brings) {
    static __attribute__((shared)) uint64_t shared;
    if (brings) shared = value;
    SyncBlock();
    return shared;
  }
  WARPVERBS_DEVICE static uint32_t BlockThreads() {
    return __builtin_amdgcn_workgroup_size_x() * __builtin_amdgcn_workgroup_size_y() *
           __builtin_amdgcn_workgroup_size_z();
  }
  WARPVERBS_DEVICE static uint32_t BlockRank() {
    return (__builtin_amdgcn_workitem_id_z() * __builtin_amdgcn_workgroup_size_y() +
            __builtin_amdgcn_workitem_id_y()) *
               __builtin_amdgcn_workgroup_size_x() +
           __builtin_amdgcn_workitem_id_x();
  }

  /// Lets the assembler choose by the GPU: the clock has 25 MHz before gfx940, and 100 MHz from there on and
  /// on gfx10. From gfx11 on a message reads it.
  ///
  /// @source  LLVM 16, AMDGPU, SIDefines.h: `ID_RTN_GET_REALTIME` is 0x83; ROCm/rccl:
  /// `VEGA_GPU_RTC_FREQUENCY`
  WARPVERBS_DEVICE static uint64_t NowNs() {
    uint64_t ticks;
    uint32_t ns_per_tick;
    asm volatile(
        ".if .amdgcn.gfx_generation_number >= 11\n\ts_sendmsg_rtn_b64 %0, 0x83\n"
        ".else\n\ts_memrealtime %0\n.endif\n"
        ".if .amdgcn.gfx_generation_number == 9 && .amdgcn.gfx_generation_minor < 4\n\ts_movk_i32 %1, 40\n"
        ".else\n\ts_movk_i32 %1, 10\n.endif\n"
        "\ts_waitcnt lgkmcnt(0)"
        : "=&s"(ticks), "=s"(ns_per_tick)::"memory");
    return ticks * ns_per_tick;
  }
  WARPVERBS_DEVICE static bool Pause(uint32_t) {
    __builtin_amdgcn_s_sleep(1);
    return false;
  }

 private:
  using Words = uint64_t __attribute__((ext_vector_type(2)));
};
static_assert(Arch<Hip>);

}  // namespace warpverbs::inline v0_2::arch
