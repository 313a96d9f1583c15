#pragma once

#include "warpverbs/device/operations.hpp"

/// Operations that change 4 or 8 bytes of the peer atomically, and fetch the old value.
///
/// The old value goes to `fetched` (sizeof(T) bytes, whatever its own length is). Without an lkey it is
/// dropped. The remote address is a multiple of sizeof(T). The device must support the operation:
/// host::Capabilities::atomic_operations, atomic_sizes.
namespace warpverbs::inline v0_2::device {

/// A word that a NIC reads and changes in one step: 4 or 8 bytes.
template <class T>
concept AtomicWord = std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>;

/// An atomic operation of any kind; the functions below make them. A plain opcode has 8 bytes; for 4 bytes
/// its masked form does the same.
///
/// @source  mlx5/wqe.hpp (`Masked...Segment`) has the layouts and the meaning of each bit
template <AtomicWord T, WqeOpcode kOpcode>
struct Atomic {
  RemoteMemory remote;
  LocalMemory fetched;
  T operands[4];  ///< swap or add, compare or field boundary, swap mask, compare mask

  WARPVERBS_DEVICE uint32_t Slots(const QueueView& view) const { return kSlots + HasTrailer(view); }

  /// A WQE of two slots, or with a value to flush, is followed by a WQE that completes for it.
  template <arch::Arch A>
  WARPVERBS_DEVICE mlx5::Be64 Encode(const QueueView& view, uint32_t index, uint32_t flags) const {
    const bool trailer = HasTrailer(view);
    const WqeWriter<A> wqe(view, index);
    wqe.Remote(remote);
    if constexpr (kIsWide) {
      wqe.Pair64(2, operands[0], operands[1]);
      if constexpr (kSlots == 2) wqe.Pair64(3, operands[2], operands[3]);
    } else {
      wqe.Quad32(2, operands);
    }
    wqe.Data(2 + kSlots, fetched.lkey.raw != 0 ? Old() : Sink(view));
    const mlx5::Be64 doorbell = wqe.Control(
        {kOpcode, 3 + kSlots, trailer ? WithoutCompletion(flags) : flags, {}, static_cast<uint32_t>(kOpmod)});
    if (!trailer) return doorbell;
    const uint32_t fence = Flushes(view) ? uint32_t{mlx5::kFence} : 0;
    return (fence != 0 ? Dump{Old()} : Nop()).template Encode<A>(view, index + kSlots, flags | fence);
  }

  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check) const {
    const LocalMemory local = fetched.lkey.raw != 0 ? Old() : LocalMemory{};
    return check.Find({remote, sizeof(T), kAtomic, local, {}, true, sizeof(T), true});
  }

 private:
  static constexpr bool kIsWide = sizeof(T) == 8;
  static constexpr bool kIsMasked =
      kOpcode == WqeOpcode::kAtomicMaskedCs || kOpcode == WqeOpcode::kAtomicMaskedFa;
  static constexpr uint32_t kSlots = kIsWide && kOpcode == WqeOpcode::kAtomicMaskedCs ? 2 : 1;
  static constexpr mlx5::AtomicOpmod kOpmod = !kIsMasked ? mlx5::AtomicOpmod::kPlain
                                              : kIsWide  ? mlx5::AtomicOpmod::kExtended8
                                                         : mlx5::AtomicOpmod::kExtended4;
  static_assert(kIsMasked || kIsWide);

  WARPVERBS_DEVICE bool Flushes(const QueueView& view) const {
    return (view.flags & kDumpAfterRead) != 0 && fetched.lkey.raw != 0;
  }
  WARPVERBS_DEVICE bool HasTrailer(const QueueView& view) const { return kSlots == 2 || Flushes(view); }
  WARPVERBS_DEVICE LocalMemory Old() const { return {fetched.addr, sizeof(T), fetched.lkey}; }
  WARPVERBS_DEVICE static LocalMemory Sink(const QueueView& view) {
    return {reinterpret_cast<uint64_t>(&view.control->sink), sizeof(T), mlx5::Be32{view.sink_lkey_be}};
  }
};

/// Returns the old value that an atomic fetched: 8 bytes arrive in the host's byte order, 4 bytes big-endian.
///
/// @pre     the operation's ticket is done
/// @source  openucx/ucx, src/uct/ib/mlx5/dv (`atomic_req_8B_endianness_mode`, `ext_atomic_arg_sizes_be`)
template <arch::Arch A, AtomicWord T>
WARPVERBS_DEVICE T Fetched(const T& memory) {
  if constexpr (sizeof(T) == sizeof(uint32_t)) return A::ToBe32(memory).raw;
  return memory;
}

template <AtomicWord T>
using MaskedFetchAddOf = Atomic<T, WqeOpcode::kAtomicMaskedFa>;
template <AtomicWord T>
using MaskedCompareSwapOf = Atomic<T, WqeOpcode::kAtomicMaskedCs>;
template <AtomicWord T>
using FetchAddOf = Atomic<T, sizeof(T) == 8 ? WqeOpcode::kAtomicFa : WqeOpcode::kAtomicMaskedFa>;
template <AtomicWord T>
using CompareSwapOf = Atomic<T, sizeof(T) == 8 ? WqeOpcode::kAtomicCs : WqeOpcode::kAtomicMaskedCs>;

/// Adds, modulo 2^32 or 2^64.
template <AtomicWord T>
WARPVERBS_DEVICE FetchAddOf<T> FetchAdd(const RemoteMemory& remote, T addend,
                                        const LocalMemory& fetched = {}) {
  return {remote, fetched, {addend}};
}

/// Adds field by field: a set bit of `boundary` is a field's top bit, so no carry leaves the field.
template <AtomicWord T>
WARPVERBS_DEVICE MaskedFetchAddOf<T> MaskedFetchAdd(const RemoteMemory& remote, T addend, T boundary,
                                                    const LocalMemory& fetched = {}) {
  return {remote, fetched, {addend, boundary}};
}

/// The operands of a compare-swap: it compares and replaces only the bits of the masks.
template <AtomicWord T>
struct CompareSwapOperands {
  T compare, swap;
  T compare_mask = ~T{0}, swap_mask = ~T{0};
};

/// Replaces the word by `swap` if it equals `compare`; ignores the masks.
template <AtomicWord T>
WARPVERBS_DEVICE CompareSwapOf<T> CompareSwap(const RemoteMemory& remote,
                                              const CompareSwapOperands<T>& operands,
                                              const LocalMemory& fetched = {}) {
  return {remote, fetched, {operands.swap, operands.compare, ~T{0}, ~T{0}}};
}

/// Compares the bits of `compare_mask`; if they match, replaces the bits of `swap_mask`.
template <AtomicWord T>
WARPVERBS_DEVICE MaskedCompareSwapOf<T> MaskedCompareSwap(const RemoteMemory& remote,
                                                          const CompareSwapOperands<T>& operands,
                                                          const LocalMemory& fetched = {}) {
  return {remote, fetched, {operands.swap, operands.compare, operands.swap_mask, operands.compare_mask}};
}

/// Replaces the word unconditionally; without `fetched` it is an atomic store.
template <AtomicWord T>
WARPVERBS_DEVICE MaskedCompareSwapOf<T> Swap(const RemoteMemory& remote, T value,
                                             const LocalMemory& fetched = {}) {
  return {remote, fetched, {value, 0, ~T{0}, 0}};
}

/// Clears the bits that are 0 in `bits`.
template <AtomicWord T>
WARPVERBS_DEVICE MaskedCompareSwapOf<T> FetchAnd(const RemoteMemory& remote, T bits,
                                                 const LocalMemory& fetched = {}) {
  return {remote, fetched, {0, 0, ~bits, 0}};
}

/// Sets the bits that are 1 in `bits`.
template <AtomicWord T>
WARPVERBS_DEVICE MaskedCompareSwapOf<T> FetchOr(const RemoteMemory& remote, T bits,
                                                const LocalMemory& fetched = {}) {
  return {remote, fetched, {bits, 0, bits, 0}};
}

/// Flips the bits that are 1 in `bits`: an addition without carries.
template <AtomicWord T>
WARPVERBS_DEVICE MaskedFetchAddOf<T> FetchXor(const RemoteMemory& remote, T bits,
                                              const LocalMemory& fetched = {}) {
  return {remote, fetched, {bits, ~T{0}}};
}

}  // namespace warpverbs::inline v0_2::device
