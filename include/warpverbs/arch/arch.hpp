#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "warpverbs/mlx5/endian.hpp"

// WARPVERBS_DEVICE stands before every function that a kernel calls, WARPVERBS_HOST_DEVICE before those that
// the host calls too. For a C++ compiler they only ask to inline, which halves what a post costs: the same
// source then runs on CPU threads.
#ifndef WARPVERBS_INLINE
#define WARPVERBS_INLINE __attribute__((always_inline)) inline
#endif
#if defined(__CUDACC__) || defined(__HIP__)
#define WARPVERBS_DEVICE __attribute__((device)) WARPVERBS_INLINE
#define WARPVERBS_HOST_DEVICE __attribute__((host)) WARPVERBS_DEVICE
#else
#define WARPVERBS_DEVICE WARPVERBS_INLINE
#define WARPVERBS_HOST_DEVICE WARPVERBS_INLINE
#endif

/// What the data path asks of a processor. Nothing above this folder has an `#if` on it.
namespace warpverbs::inline v0_2::arch {

/// The last 16 bytes of a CQE as two native words. device/detail/completion.hpp reads them.
struct CqeTail {
  uint64_t low;   ///< bytes 48 to 55: the syndromes, in an error CQE
  uint64_t high;  ///< bytes 56 to 63: queue pair, counter, opcode, owner
};

/// How far a release must reach. Only threads of one processor may share a queue: the compare-swaps of two
/// are not atomic to each other over PCIe.
enum class Scope {
  /// Queues and the data to send lie in this GPU's memory, which the NIC reads through its L2 cache.
  kGpu,
  /// Any of them lies in host memory.
  kSystem,
};

/// A bit for each lane of a warp, whose lanes run together. A thread in no warp is a warp of one, lane 0.
using LaneMask = uint64_t;

/// The primitives. Order is part of each; there are no loose fences.
template <class A>
concept Arch = requires(uint32_t* word32, const uint32_t* read_only32, uint64_t* word,
                        const uint64_t* read_only, uint8_t* bytes, uint32_t x32, uint64_t x, LaneMask mask,
                        uint32_t lane) {
  { A::ToBe32(uint32_t{}) } -> std::same_as<mlx5::Be32>;
  { A::ToBe64(x) } -> std::same_as<mlx5::Be64>;
  // The same for `first` << 24 | the low 16 bits of `middle` << 8 | `last`, where those have 8 bits.
  { A::ToBe32(x32, x32, x32) } -> std::same_as<mlx5::Be32>;
  // Two words as one: `low` comes first in memory.
  { A::Join(uint32_t{}, uint32_t{}) } -> std::same_as<uint64_t>;

  // Stores 16 aligned bytes of a WQE, in no order of its own.
  A::StoreSegment(bytes, x, x);
  // Stores a word that the NIC or other posters read, after every earlier store, doorbells included.
  A::StoreRelease(word32, uint32_t{});
  A::StoreRelease(word, x);
  // Stores to a NIC register, after every earlier store; always as one access of 8 bytes.
  A::StoreReleaseMmio(word, mlx5::Be64{});
  // The two halves of StoreRelease, for those who have to wait in between: what was stored before Release()
  // is there before what StoreReleased() stores later.
  A::Release();
  A::StoreReleased(word32, x32);

  // Reads the tail of a CQE while the NIC may be writing it. `low` counts only if `high` tells of an error.
  { A::LoadCqeTail(bytes) } -> std::same_as<CqeTail>;
  // After a completion was seen: what the NIC wrote before it is visible to the loads that follow.
  A::AcquireAfterCompletion();

  // Loads a word that others change. Later stores stay behind it; later loads need not.
  { A::Load(read_only) } -> std::same_as<uint64_t>;
  { A::Load32(read_only32) } -> std::same_as<uint32_t>;
  // The same, but later loads stay behind it too.
  { A::LoadAcquire(read_only) } -> std::same_as<uint64_t>;
  // Stores a word that others read, in no order.
  A::Store(word, x);
  // Replaces the value `x` by another and returns what was there. Later stores stay behind it, as with Load.
  { A::CompareSwap(word, x, x) } -> std::same_as<uint64_t>;
  { A::CompareSwap32(word32, x32, x32) } -> std::same_as<uint32_t>;

  // Whether the lanes of a warp take every step together: then none can wait in a loop for another.
  typename std::bool_constant<A::kLockstep>;
  { A::Lane() } -> std::same_as<uint32_t>;
  // Lanes that certainly make this call together with the caller, itself among them; maybe not all that do.
  { A::ActiveLanes() } -> std::same_as<LaneMask>;
  // All lanes of `mask` call it, with the same mask. What each stored before is visible to all of them after.
  A::SyncLanes(mask);
  A::SyncBlock();  // the same for all threads of the block
  // Whether all threads of the block say true, and the value of the one that brings it. Both sync the block,
  // and one of them or a SyncBlock() stands between two ShareInBlock().
  { A::AllOfBlock(true) } -> std::same_as<bool>;
  { A::ShareInBlock(x, true) } -> std::same_as<uint64_t>;
  { A::BlockThreads() } -> std::same_as<uint32_t>;
  {
    A::BlockRank()
    } -> std::same_as<uint32_t>;  // less than BlockThreads(); counts up along the lanes of a warp
  // The lanes of `mask` that said true. Called as SyncLanes, but orders nothing.
  { A::Ballot(mask, true) } -> std::same_as<LaneMask>;
  // The value that `lane` of `mask` brought. Called as SyncLanes, but orders nothing.
  { A::Shuffle(mask, uint32_t{}, lane) } -> std::same_as<uint32_t>;
  { A::Shuffle(mask, x, lane) } -> std::same_as<uint64_t>;

  // A clock that all threads of a kernel share and that only moves forward.
  { A::NowNs() } -> std::same_as<uint64_t>;
  // Lets others run; `rounds` is how often the caller has waited already. True if it may have taken long.
  { A::Pause(uint32_t{}) } -> std::same_as<bool>;
};

}  // namespace warpverbs::inline v0_2::arch
