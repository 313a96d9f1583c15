#pragma once

#include "warpverbs/device/detail/atomic.hpp"

/// Operations that change 4 or 8 bytes of the peer at once, and fetch what was there.
///
/// The old value comes to `fetched` (sizeof(T) bytes, whatever its own length says) or, without an lkey,
/// nowhere. The remote address is a multiple of sizeof(T); no byte beside it is touched. The device must have
/// the operation: host::Capabilities::atomic_operations, atomic_sizes.
namespace warpverbs::inline v0_2::device {

/// The old value, from where an atomic has put it: 8 bytes come in the host's byte order, 4 bytes big-endian.
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

/// Adds field by field: a set bit of `boundary` is a field's top bit and carries nothing into the next.
template <AtomicWord T>
WARPVERBS_DEVICE MaskedFetchAddOf<T> MaskedFetchAdd(const RemoteMemory& remote, T addend, T boundary,
                                                    const LocalMemory& fetched = {}) {
  return {remote, fetched, {addend, boundary}};
}

/// What a compare-swap looks for, and what it puts there; only the bits that the masks have.
template <AtomicWord T>
struct CompareSwapOperands {
  T compare, swap;
  T compare_mask = ~T{0}, swap_mask = ~T{0};
};

/// Replaces the word by `swap` if it is `compare`; all bits of both.
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

/// Replaces the word, whatever it is; without `fetched` it is an atomic store.
template <AtomicWord T>
WARPVERBS_DEVICE MaskedCompareSwapOf<T> Swap(const RemoteMemory& remote, T value,
                                             const LocalMemory& fetched = {}) {
  return {remote, fetched, {value, 0, ~T{0}, 0}};
}

/// Clears the bits that `bits` lacks.
template <AtomicWord T>
WARPVERBS_DEVICE MaskedCompareSwapOf<T> FetchAnd(const RemoteMemory& remote, T bits,
                                                 const LocalMemory& fetched = {}) {
  return {remote, fetched, {0, 0, ~bits, 0}};
}

/// Sets the bits that `bits` has.
template <AtomicWord T>
WARPVERBS_DEVICE MaskedCompareSwapOf<T> FetchOr(const RemoteMemory& remote, T bits,
                                                const LocalMemory& fetched = {}) {
  return {remote, fetched, {bits, 0, bits, 0}};
}

/// Flips the bits that `bits` has: an addition in which no bit carries.
template <AtomicWord T>
WARPVERBS_DEVICE MaskedFetchAddOf<T> FetchXor(const RemoteMemory& remote, T bits,
                                              const LocalMemory& fetched = {}) {
  return {remote, fetched, {bits, ~T{0}}};
}

}  // namespace warpverbs::inline v0_2::device
