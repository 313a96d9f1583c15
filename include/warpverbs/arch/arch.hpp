#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "warpverbs/mlx5/endian.hpp"

/// The requirements of the data path on a processor. Nothing above this folder has an `#if` on the processor.
namespace warpverbs::inline v0_2::arch {

/// The last 16 bytes of a CQE as two native words. device/detail/completion.hpp reads them.
struct CqeTail {
  uint64_t low;   ///< bytes 48 to 55: the syndromes, in an error CQE
  uint64_t high;  ///< bytes 56 to 63: queue pair, counter, opcode, owner
};

/// How far a release reaches. Only threads of one processor may share a queue: the compare-swaps of two
/// processors are not atomic to each other over PCIe.
enum class Scope {
  /// For queues and data in this GPU's memory, which the NIC reads through its L2 cache.
  kGpu,
  /// For queues or data in host memory.
  kSystem,
};

/// How a doorbell register is mapped for CPU threads. A GPU's store is the same for each.
enum class Mmio : bool {
  /// As strictly ordered memory, or a word in host memory in place of a register.
  kUncached,
  /// Stores wait in the processor until a barrier drives them out, and may overtake or be overtaken.
  kWriteCombining,
};

/// A bit for each lane of a warp. A thread outside any warp is a warp of one, lane 0.
using LaneMask = uint64_t;

/// The primitives. Each includes its memory order; there are no separate fences.
template <class A>
concept Arch = requires(uint32_t* word32, const uint32_t* read_only32, uint64_t* word,
                        const uint64_t* read_only, uint8_t* bytes, uint32_t x32, uint64_t x, LaneMask mask,
                        uint32_t lane) {
  // How far StoreRelease, StoreReleaseMmio and Release reach.
  typename std::bool_constant<A::kReleaseScope == Scope::kSystem>;

  { A::ToBe32(uint32_t{}) } -> std::same_as<mlx5::Be32>;
  { A::ToBe64(x) } -> std::same_as<mlx5::Be64>;
  // The same for `first` << 24 | the low 16 bits of `middle` << 8 | `last`; `first` and `last` have 8 bits.
  { A::ToBe32(x32, x32, x32) } -> std::same_as<mlx5::Be32>;
  // Joins two words; `low` comes first in memory.
  { A::Join(uint32_t{}, uint32_t{}) } -> std::same_as<uint64_t>;

  // Stores 16 aligned bytes of a WQE, without order.
  A::StoreSegment(bytes, x, x);
  // Does the same only if the first argument is true. CUDA computes the others before it knows the first.
  A::StoreSegmentIf(true, bytes, x, x);
  // Stores a word that the NIC or other posters read, after all earlier stores, including doorbells.
  A::StoreRelease(word32, uint32_t{});
  A::StoreRelease(word, x);
  // Stores to a NIC register, after all earlier stores, as one access of 8 bytes.
  A::StoreReleaseMmio(word, mlx5::Be64{}, Mmio::kUncached);
  // The two halves of StoreRelease, for a poster that has to wait in between: stores before Release() are
  // visible before the store of a later StoreReleased().
  A::Release();
  A::StoreReleased(word32, x32);

  // Reads the tail of a CQE while the NIC may be writing it. `low` is valid only if `high` shows an error.
  { A::LoadCqeTail(bytes) } -> std::same_as<CqeTail>;
  // After a completion: makes what the NIC wrote before it visible to later loads.
  A::AcquireAfterCompletion();

  // Loads a word that other threads change. Later stores stay behind it; later loads need not.
  { A::Load(read_only) } -> std::same_as<uint64_t>;
  { A::Load32(read_only32) } -> std::same_as<uint32_t>;
  // The same, but later loads stay behind it, too.
  { A::LoadAcquire(read_only) } -> std::same_as<uint64_t>;
  // Stores a word that other threads read, without order.
  A::Store(word, x);
  // Adds to a word, and returns the old value. Later stores stay behind it, as with Load.
  { A::Add(word, x) } -> std::same_as<uint64_t>;
  // Adds to a word that other threads read: stores before the last Release() are visible before it.
  A::AddReleased(word, x);
  // Replaces the value `x` by another, and returns the old value. Later stores stay behind it, as with Load.
  { A::CompareSwap(word, x, x) } -> std::same_as<uint64_t>;
  { A::CompareSwap32(word32, x32, x32) } -> std::same_as<uint32_t>;

  // Whether the lanes of a warp take every step together, so that no lane can wait in a loop for another.
  typename std::bool_constant<A::kLockstep>;
  { A::Lane() } -> std::same_as<uint32_t>;
  // Returns the value, and keeps it in a register where a compiler would compute it again for each use.
  { A::Keep(x32) } -> std::same_as<uint32_t>;
  // Returns 0. CUDA's assembler takes it for a number that may differ from lane to lane.
  { A::OpaqueZero() } -> std::same_as<uint32_t>;
  // Lanes that certainly make this call together with the caller, including the caller; maybe not all that
  // do.
  { A::ActiveLanes() } -> std::same_as<LaneMask>;
  // All lanes of the caller's warp, which call it together.
  { A::WarpLanes() } -> std::same_as<LaneMask>;
  // All lanes of `mask` call it with the same mask. Makes the earlier stores of each visible to all of them.
  A::SyncLanes(mask);
  A::SyncBlock();  // the same for all threads of the block
  // AllOfBlock: whether all threads of the block pass true. ShareInBlock: the value of the thread that passes
  // true. Both sync the block. Between two ShareInBlock() there must be another of these calls.
  { A::AllOfBlock(true) } -> std::same_as<bool>;
  { A::ShareInBlock(x, true) } -> std::same_as<uint64_t>;
  { A::BlockThreads() } -> std::same_as<uint32_t>;
  // Less than BlockThreads(); counts up along the lanes of a warp.
  { A::BlockRank() } -> std::same_as<uint32_t>;
  // Returns the lanes of `mask` that pass true. Called as SyncLanes, but orders nothing.
  { A::Ballot(mask, true) } -> std::same_as<LaneMask>;
  // Returns the value that `lane` of `mask` passes. Called as SyncLanes, but orders nothing.
  { A::Shuffle(mask, uint32_t{}, lane) } -> std::same_as<uint32_t>;
  { A::Shuffle(mask, x, lane) } -> std::same_as<uint64_t>;

  // A monotonic clock that all threads of a kernel share.
  { A::NowNs() } -> std::same_as<uint64_t>;
  // Lets other threads run; `rounds` counts the caller's earlier pauses. Returns true if it may have taken
  // long.
  { A::Pause(uint32_t{}) } -> std::same_as<bool>;
};

}  // namespace warpverbs::inline v0_2::arch
