#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/arch/cpu_place.hpp"
#include "warpverbs/mlx5/cqe.hpp"

namespace warpverbs::inline v0_2::arch {

/// Threads of a CPU. All order comes from atomic accesses and mutexes, so ThreadSanitizer follows it. A
/// thread is a warp of its own, unless cpu::RunBlock() runs it.
struct Cpu {
  static constexpr Scope kReleaseScope = Scope::kSystem;

  static mlx5::Be32 ToBe32(uint32_t x) { return mlx5::ToBe32(x); }
  static mlx5::Be64 ToBe64(uint64_t x) { return mlx5::ToBe64(x); }
  static mlx5::Be32 ToBe32(uint32_t first, uint32_t middle, uint32_t last) {
    return ToBe32(first << 24 | (middle & 0xffff) << 8 | last);
  }
  static uint64_t Join(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

  static void StoreSegment(uint8_t* segment, uint64_t low, uint64_t high) {
    const uint64_t words[2] = {low, high};
    std::memcpy(segment, words, sizeof words);
  }
  static void StoreSegmentIf(bool stores, uint8_t* segment, uint64_t low, uint64_t high) {
    if (stores) StoreSegment(segment, low, high);
  }
  template <std::unsigned_integral T>
  static void StoreRelease(T* word, std::type_identity_t<T> value) {
    OrderStores();
    std::atomic_ref(*word).store(value, std::memory_order_release);
  }
  /// A write-combining register needs a barrier on either side: no release orders it after the record, and
  /// the processor may hold the store back.
  ///
  /// @source  rdma-core v44, util/udma_barrier.h, mmio_wc_start(), mmio_flush_writes(); Intel SDM, volume 3A,
  ///          "Methods of Caching Available"
  static void StoreReleaseMmio(uint64_t* doorbell, mlx5::Be64 value, Mmio mapping) {
    if (mapping == Mmio::kUncached) return StoreRelease(doorbell, value.raw);
    FlushStores();
    std::atomic_ref(*doorbell).store(value.raw, std::memory_order_release);
    FlushStores();
  }

  static void Release() {}  // StoreReleased() does both, in a way that ThreadSanitizer follows
  static void StoreReleased(uint32_t* word, uint32_t value) { StoreRelease(word, value); }

  /// Takes two loads, since C++ has no atomic access of 16 bytes. A NIC writes both halves at once, and
  /// softhca removes an error from `high` before it changes `low`: if `high` shows the same error before and
  /// after the load of `low`, the halves belong together.
  static CqeTail LoadCqeTail(const uint8_t* tail) {
    const auto* const words = reinterpret_cast<const uint64_t*>(tail);
    for (uint64_t high = LoadFromNic(words + 1);;) {
      if (high >> 60 < static_cast<uint64_t>(mlx5::CqeOpcode::kRequesterError))
        return {.low = 0, .high = high};
      const uint64_t low = LoadFromNic(words);
      const uint64_t again = LoadFromNic(words + 1);
      if (again == high) return {.low = low, .high = high};
      high = again;
    }
  }
  static void AcquireAfterCompletion() { OrderLoads(); }  // a signal was loaded without this order

  // C++ has nothing weaker than an acquire that holds back later stores.
  static uint64_t Load(const uint64_t* word) { return LoadAcquire(word); }
  static uint32_t Load32(const uint32_t* word) { return LoadAcquire(word); }
  template <std::unsigned_integral T>
  static T LoadAcquire(const T* word) {
    return std::atomic_ref(const_cast<T&>(*word)).load(std::memory_order_acquire);
  }
  static void Store(uint64_t* word, uint64_t value) {
    std::atomic_ref(*word).store(value, std::memory_order_relaxed);
  }
  static uint64_t Add(uint64_t* word, uint64_t value) {
    return std::atomic_ref(*word).fetch_add(value, std::memory_order_acquire);
  }
  static void AddReleased(uint64_t* word, uint64_t value) {
    OrderStores();
    std::atomic_ref(*word).fetch_add(value, std::memory_order_release);
  }
  static uint64_t CompareSwap(uint64_t* word, uint64_t expected, uint64_t desired) {
    std::atomic_ref(*word).compare_exchange_strong(expected, desired, std::memory_order_acquire);
    return expected;
  }
  static uint32_t CompareSwap32(uint32_t* word, uint32_t expected, uint32_t desired) {
    std::atomic_ref(*word).compare_exchange_strong(expected, desired, std::memory_order_acquire);
    return expected;
  }

  static constexpr bool kLockstep = false;
  static uint32_t Lane() { return cpu::place->lane(); }
  static uint32_t Keep(uint32_t value) { return value; }
  static uint32_t OpaqueZero() { return 0; }
  static LaneMask ActiveLanes() { return LaneMask{1} << Lane(); }
  static LaneMask WarpLanes() { return cpu::place->warp_lanes(); }
  static void SyncLanes(LaneMask mask) { cpu::place->AllGather(mask, 0); }
  static LaneMask Ballot(LaneMask mask, bool vote) { return cpu::place->Ballot(mask, vote); }
  template <std::unsigned_integral T>
  static T Shuffle(LaneMask mask, T value, uint32_t lane) {
    return static_cast<T>(cpu::place->Shuffle(mask, value, lane));
  }
  static void SyncBlock() { cpu::place->SyncBlock(); }
  static bool AllOfBlock(bool mine) { return cpu::place->AllOfBlock(mine); }
  static uint64_t ShareInBlock(uint64_t value, bool brings) {
    return cpu::place->ShareInBlock(value, brings);
  }
  static uint32_t BlockThreads() { return cpu::place->block_threads(); }
  static uint32_t BlockRank() { return cpu::place->block_rank(); }

  static uint64_t NowNs() {
    return static_cast<uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  }
  /// Yields once the wait is longer than a round trip: the other thread may need this processor.
  static bool Pause(uint32_t rounds) {
    constexpr uint32_t kBusyRounds = 256;
    if (rounds >= kBusyRounds) {
      std::this_thread::yield();
      return true;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();  // the other hyperthread may be the one that this one waits for
#endif
    return false;
  }

 private:
  static uint64_t LoadFromNic(const uint64_t* word) {
    const uint64_t value = LoadAcquire(word);
    OrderLoads();
    return value;
  }

  // C++ orders threads: on AArch64, the inner shareable domain. A NIC is in the outer one. On x86-64, a plain
  // store to uncached memory follows all earlier stores, and a plain load all earlier loads. Elsewhere, the
  // strongest fence of C++ suffices for threads and softhca; see docs/memory-order.md for a NIC.
#if defined(__x86_64__)
  static void OrderStores() {}
  static void OrderLoads() {}
  static void FlushStores() { __builtin_ia32_sfence(); }
#elif defined(__aarch64__)
  static void OrderStores() { asm volatile("dmb oshst" ::: "memory"); }
  static void OrderLoads() { asm volatile("dmb oshld" ::: "memory"); }
  static void FlushStores() { asm volatile("dsb st" ::: "memory"); }
#else
  static void OrderStores() { std::atomic_thread_fence(std::memory_order_seq_cst); }
  static void OrderLoads() { std::atomic_thread_fence(std::memory_order_seq_cst); }
  static void FlushStores() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#endif
};
static_assert(Arch<Cpu>);

}  // namespace warpverbs::inline v0_2::arch
