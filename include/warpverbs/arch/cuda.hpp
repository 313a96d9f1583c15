#pragma once

#include "warpverbs/arch/arch.hpp"

namespace warpverbs::inline v0_2::arch {

/// The instructions that compilers name differently. What clang names needs no CUDA toolkit.
namespace cuda {

#ifdef __NVCC__
WARPVERBS_DEVICE uint32_t BytePermute(uint32_t low, uint32_t high, uint32_t selector) {
  return __byte_perm(low, high, selector);
}
WARPVERBS_DEVICE uint32_t ActiveMask() { return __activemask(); }
WARPVERBS_DEVICE void SyncWarp(uint32_t mask) { __syncwarp(mask); }
WARPVERBS_DEVICE uint32_t Ballot(uint32_t mask, bool vote) { return __ballot_sync(mask, vote); }
template <std::unsigned_integral T>
WARPVERBS_DEVICE T Shuffle(uint32_t mask, T value, int lane) {
  return __shfl_sync(mask, value, lane);
}
WARPVERBS_DEVICE void SyncBlock() { __syncthreads(); }
WARPVERBS_DEVICE bool AllOfBlock(bool mine) { return __syncthreads_and(mine) != 0; }
WARPVERBS_DEVICE uint32_t BlockThreads() { return blockDim.x * blockDim.y * blockDim.z; }
WARPVERBS_DEVICE uint32_t BlockRank() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
/// Whether the assembler has the one-way fences of PTX ISA 8.6 (CUDA 12.7).
inline constexpr bool kOneWayFences = __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1207;
#else
WARPVERBS_DEVICE uint32_t BytePermute(uint32_t low, uint32_t high, uint32_t selector) {
  return __nvvm_prmt(low, high, selector);
}
WARPVERBS_DEVICE uint32_t ActiveMask() {
  uint32_t mask;
  asm volatile("activemask.b32 %0;" : "=r"(mask));
  return mask;
}
WARPVERBS_DEVICE void SyncWarp(uint32_t mask) { __nvvm_bar_warp_sync(mask); }
WARPVERBS_DEVICE uint32_t Ballot(uint32_t mask, bool vote) { return __nvvm_vote_ballot_sync(mask, vote); }
WARPVERBS_DEVICE uint32_t Shuffle(uint32_t mask, uint32_t value, int lane) {
  constexpr int kWholeWarp = 0x1f;
  return static_cast<uint32_t>(__nvvm_shfl_sync_idx_i32(mask, static_cast<int>(value), lane, kWholeWarp));
}
WARPVERBS_DEVICE uint64_t Shuffle(uint32_t mask, uint64_t value, int lane) {
  const uint64_t high = Shuffle(mask, static_cast<uint32_t>(value >> 32), lane);
  return high << 32 | Shuffle(mask, static_cast<uint32_t>(value), lane);
}
WARPVERBS_DEVICE void SyncBlock() { __syncthreads(); }
WARPVERBS_DEVICE bool AllOfBlock(bool mine) { return __nvvm_bar0_and(mine) != 0; }
WARPVERBS_DEVICE uint32_t BlockThreads() {
  return static_cast<uint32_t>(__nvvm_read_ptx_sreg_ntid_x() * __nvvm_read_ptx_sreg_ntid_y() *
                               __nvvm_read_ptx_sreg_ntid_z());
}
WARPVERBS_DEVICE uint32_t BlockRank() {
  return static_cast<uint32_t>(
      (__nvvm_read_ptx_sreg_tid_z() * __nvvm_read_ptx_sreg_ntid_y() + __nvvm_read_ptx_sreg_tid_y()) *
          __nvvm_read_ptx_sreg_ntid_x() +
      __nvvm_read_ptx_sreg_tid_x());
}
/// The same. clang 16 to 19 make PTX of an older ISA; only bitcode that others assemble may have them.
#ifdef WARPVERBS_ONE_WAY_FENCES
inline constexpr bool kOneWayFences = true;
#else
inline constexpr bool kOneWayFences = false;
#endif
#endif

}  // namespace cuda

/// Threads of an NVIDIA GPU, from sm_80.
///
/// A release of GPU scope orders what the NIC reads from GPU memory, because both meet in the L2 cache. PTX
/// does not promise that, but every NVIDIA GPU so far does it. If a queue or its data are in host memory, use
/// kSystem. Generic addresses of global memory are global addresses, so `.global` saves the conversion.
///
/// @source  PTX ISA 8.7, "Memory Consistency Model", `fence`, `ld`, `st`
template <Scope kScope>
struct BasicCuda {
  static constexpr Scope kReleaseScope = kScope;

  WARPVERBS_DEVICE static mlx5::Be32 ToBe32(uint32_t x) {
    return mlx5::Be32{cuda::BytePermute(x, 0, 0x0123)};
  }
  /// Takes one instruction; the compiler makes four of shift, mask, or and permute.
  WARPVERBS_DEVICE static mlx5::Be32 ToBe32(uint32_t first, uint32_t middle, uint32_t last) {
    return mlx5::Be32{cuda::BytePermute(middle, first | last << 8, 0x5014)};
  }
  WARPVERBS_DEVICE static mlx5::Be64 ToBe64(uint64_t x) {
    return mlx5::Be64{Join(ToBe32(static_cast<uint32_t>(x >> 32)).raw, ToBe32(static_cast<uint32_t>(x)).raw)};
  }
  /// Avoids assembly, so that the compiler can move it out of a loop.
  WARPVERBS_DEVICE static uint64_t Join(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

  WARPVERBS_DEVICE static void StoreSegment(uint8_t* segment, uint64_t low, uint64_t high) {
    asm volatile("st.global.v2.b64 [%0], {%1, %2};" ::"l"(segment), "l"(low), "l"(high) : "memory");
  }
  /// A predicate in place of a branch: what is stored can be computed before it is known.
  WARPVERBS_DEVICE static void StoreSegmentIf(bool stores, uint8_t* segment, uint64_t low, uint64_t high) {
    asm volatile(
        "{\n\t.reg .pred %%stores;\n\tsetp.ne.u32 %%stores, %3, 0;\n\t"
        "@%%stores st.global.v2.b64 [%0], {%1, %2};\n\t}" ::"l"(segment),
        "l"(low), "l"(high), "r"(uint32_t{stores})
        : "memory");
  }
  WARPVERBS_DEVICE static void StoreRelease(uint32_t* word, uint32_t value) {
    Release();
    StoreReleased(word, value);
  }
  WARPVERBS_DEVICE static void StoreRelease(uint64_t* word, uint64_t value) {
    Release();
    Store(word, value);
  }
  WARPVERBS_DEVICE static void StoreReleaseMmio(uint64_t* doorbell, mlx5::Be64 value, Mmio) {
    Release();
    asm volatile("st.mmio.relaxed.sys.global.b64 [%0], %1;" ::"l"(doorbell), "l"(value.raw) : "memory");
  }

  WARPVERBS_DEVICE static void Release() {
    if constexpr (kScope == Scope::kGpu && cuda::kOneWayFences) {
      asm volatile("fence.release.gpu;" ::: "memory");
    } else if constexpr (kScope == Scope::kGpu) {
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
    } else if constexpr (cuda::kOneWayFences) {
      asm volatile("fence.release.sys;" ::: "memory");
    } else {
      asm volatile("fence.acq_rel.sys;" ::: "memory");
    }
  }
  WARPVERBS_DEVICE static void StoreReleased(uint32_t* word, uint32_t value) {
    asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }

  /// Loads 16 bytes by one access; a NIC writes a CQE's aligned 16 bytes at once.
  WARPVERBS_DEVICE static CqeTail LoadCqeTail(const uint8_t* tail) {
    CqeTail loaded;
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(loaded.low), "=l"(loaded.high)
                 : "l"(tail)
                 : "memory");
    return loaded;
  }
  WARPVERBS_DEVICE static void AcquireAfterCompletion() {
    if constexpr (cuda::kOneWayFences) {
      asm volatile("fence.acquire.sys;" ::: "memory");
    } else {
      asm volatile("fence.acq_rel.sys;" ::: "memory");
    }
  }

  // Relaxed suffices to hold back later stores: a GPU does not speculate, so they wait for the branch on the
  // value. An acquire would also invalidate the L1 cache.
  WARPVERBS_DEVICE static uint64_t Load(const uint64_t* word) {
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.b64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  WARPVERBS_DEVICE static uint32_t Load32(const uint32_t* word) {
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.b32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  WARPVERBS_DEVICE static uint64_t LoadAcquire(const uint64_t* word) {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.b64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  WARPVERBS_DEVICE static void Store(uint64_t* word, uint64_t value) {
    asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  WARPVERBS_DEVICE static uint64_t Add(uint64_t* word, uint64_t value) {
    uint64_t seen;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(seen)
                 : "l"(word), "l"(value)
                 : "memory");
    return seen;
  }
  WARPVERBS_DEVICE static void AddReleased(uint64_t* word, uint64_t value) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  /// Is atomic to this GPU's threads only. Its L2 cache executes it, for host memory, too: there even system
  /// scope would not make it atomic to other processors.
  WARPVERBS_DEVICE static uint64_t CompareSwap(uint64_t* word, uint64_t expected, uint64_t desired) {
    uint64_t seen;
    asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(seen)
                 : "l"(word), "l"(expected), "l"(desired)
                 : "memory");
    return seen;
  }
  WARPVERBS_DEVICE static uint32_t CompareSwap32(uint32_t* word, uint32_t expected, uint32_t desired) {
    uint32_t seen;
    asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(seen)
                 : "l"(word), "r"(expected), "r"(desired)
                 : "memory");
    return seen;
  }

  static constexpr bool kLockstep = false;
  WARPVERBS_DEVICE static uint32_t Lane() {
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
  }
  /// Makes the value depend on a vote: the assembler repeats arithmetic for each use, but not a vote. It does
  /// not know that this one is never 0.
  WARPVERBS_DEVICE static uint32_t Keep(uint32_t value) { return cuda::ActiveMask() != 0 ? value : 0; }
  /// Returns the bit of lane 0 in the mask of the lanes above the caller, which is never set. The assembler
  /// knows that a lane's number is below 32, but not this.
  WARPVERBS_DEVICE static uint32_t OpaqueZero() {
    uint32_t above;
    asm("mov.u32 %0, %%lanemask_gt;" : "=r"(above));
    return above & 1;
  }
  WARPVERBS_DEVICE static LaneMask ActiveLanes() { return cuda::ActiveMask(); }
  WARPVERBS_DEVICE static LaneMask WarpLanes() {
    constexpr uint32_t kLanes = 32;
    const uint32_t threads = BlockThreads() - BlockRank() / kLanes * kLanes;  // the last warp may be shorter
    return threads < kLanes ? (1u << threads) - 1 : ~0u;
  }
  WARPVERBS_DEVICE static void SyncLanes(LaneMask mask) { cuda::SyncWarp(static_cast<uint32_t>(mask)); }
  WARPVERBS_DEVICE static LaneMask Ballot(LaneMask mask, bool vote) {
    return cuda::Ballot(static_cast<uint32_t>(mask), vote);
  }
  template <std::unsigned_integral T>
  WARPVERBS_DEVICE static T Shuffle(LaneMask mask, T value, uint32_t lane) {
    return cuda::Shuffle(static_cast<uint32_t>(mask), value, static_cast<int>(lane));
  }
  WARPVERBS_DEVICE static void SyncBlock() { cuda::SyncBlock(); }
  WARPVERBS_DEVICE static bool AllOfBlock(bool mine) { return cuda::AllOfBlock(mine); }
  WARPVERBS_DEVICE static uint64_t ShareInBlock(uint64_t value, bool brings) {
    static __attribute__((shared)) uint64_t shared;
    if (brings) shared = value;
    cuda::SyncBlock();
    return shared;
  }
  WARPVERBS_DEVICE static uint32_t BlockThreads() { return cuda::BlockThreads(); }
  WARPVERBS_DEVICE static uint32_t BlockRank() { return cuda::BlockRank(); }

  WARPVERBS_DEVICE static uint64_t NowNs() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
  }
  /// Does not sleep at first: a predecessor mostly publishes within a microsecond, and a sleep would delay
  /// all successors.
  WARPVERBS_DEVICE static bool Pause(uint32_t rounds) {
    constexpr uint32_t kBusyRounds = 64;
    if (rounds >= kBusyRounds) asm volatile("nanosleep.u32 32;" ::: "memory");
    return false;
  }
};

using Cuda = BasicCuda<Scope::kGpu>;
using CudaSystem = BasicCuda<Scope::kSystem>;
static_assert(Arch<Cuda> && Arch<CudaSystem>);

}  // namespace warpverbs::inline v0_2::arch
