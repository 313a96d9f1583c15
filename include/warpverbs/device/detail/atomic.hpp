#pragma once

#include "warpverbs/device/operations.hpp"

namespace warpverbs::inline v0_2::device {

template <class T>
concept AtomicWord = std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>;

/// An atomic operation of any kind: the functions of atomics.hpp make them. A plain opcode has 8 bytes; for 4
/// bytes its masked form does the same.
///
/// @source  the layouts: mlx5/wqe.hpp (`Masked...Segment`); what each bit does: the same
template <AtomicWord T, WqeOpcode kOpcode>
struct Atomic {
  RemoteMemory remote;
  LocalMemory fetched;
  T operands[4];  ///< swap or add, compare or field boundary, swap mask, compare mask

  WARPVERBS_DEVICE uint32_t Slots(const QueueView& view) const { return kSlots + HasTrailer(view); }

  /// Two slots, or a value that must be flushed, are followed by a WQE that completes for them.
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
    const mlx5::Be64 doorbell = wqe.Control({kOpcode,
                                             3 + kSlots,
                                             trailer ? WithoutCompletion(flags) : flags,
                                             {0},
                                             static_cast<uint32_t>(kOpmod)});
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
    return {reinterpret_cast<uint64_t>(&view.control->sink), sizeof(T), {view.sink_lkey_be}};
  }
};

}  // namespace warpverbs::inline v0_2::device
