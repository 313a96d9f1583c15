#pragma once

#include <type_traits>

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/device/memory.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/mlx5/wqe.hpp"

/// The only encoder: turns requests into the bytes of send queue slots, as rdma-core's libmlx5 writes them.
namespace warpverbs::inline v0_2::device {

using mlx5::WqeOpcode;

/// Bytes of a slot behind the control segment, the remote address and the inline header.
inline constexpr uint32_t kMaxInlineWriteBytes = 28;

inline constexpr uint32_t kSegmentsPerSlot = mlx5::kWqebbBytes / mlx5::kSegmentBytes;

/// A value that fits in a WQE.
template <class T>
concept InlineValue = std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxInlineWriteBytes;

/// The fields of the control segment beside its place in the queue.
struct ControlFields {
  WqeOpcode opcode;
  uint32_t segments;  ///< segments of the whole WQE, including this one
  uint32_t flags;     ///< mlx5::CtrlFlags
  mlx5::Be32 imm = {};
  uint32_t opmod = 0;
};

/// The 16 bytes of a segment, as native words.
struct SegmentWords {
  uint64_t low, high;
};

/// Returns the data segment of a send or a receive.
template <arch::Arch A>
WARPVERBS_DEVICE SegmentWords DataSegment(const LocalMemory& local) {
  const mlx5::Be32 bytes = A::ToBe32(static_cast<uint32_t>(local.bytes));
  return {A::Join(bytes.raw, local.lkey.raw), A::ToBe64(local.addr).raw};
}

/// Writes one WQE from slot `index` on, 16 bytes at a time.
///
/// @tparam kConditional  the caller knows only late whether to write: all is computed, and stored if `writes`
/// @source  rdma-core v44, providers/mlx5/qp.c, _mlx5_post_send(); byte for byte in tests/{device,e2e}
template <arch::Arch A, bool kConditional = false>
class WqeWriter {
 public:
  WARPVERBS_DEVICE WqeWriter(const QueueView& view, uint32_t index, bool writes = true)
      : view_(view), index_(index), slot_(SlotOf(index)), writes_(writes) {}

  /// Returns the first 8 bytes of the control segment, the value for the doorbell register.
  WARPVERBS_DEVICE mlx5::Be64 Doorbell(const ControlFields& control) const {
    const mlx5::Be32 index_opcode = A::ToBe32(control.opmod, index_, static_cast<uint32_t>(control.opcode));
    return mlx5::Be64{A::Join(index_opcode.raw, view_.qpn_be | control.segments << 24)};
  }

  /// Writes the control segment, and returns Doorbell().
  WARPVERBS_DEVICE mlx5::Be64 Control(const ControlFields& control) const {
    const mlx5::Be64 doorbell = Doorbell(control);
    Store(slot_, {doorbell.raw, A::Join(control.flags << 24, control.imm.raw)});
    return doorbell;
  }

  WARPVERBS_DEVICE void Remote(const RemoteMemory& remote) const {
    Store(slot_ + mlx5::kSegmentBytes, {A::ToBe64(remote.addr).raw, remote.rkey.raw});
  }

  /// Writes a data segment, and returns the number written: 0 for an empty message, since a length of 0 means
  /// 2 GiB.
  WARPVERBS_DEVICE uint32_t Data(uint32_t segment, const LocalMemory& local) const {
    if (local.bytes == 0) return 0;
    Store(At(segment), DataSegment<A>(local));
    return 1;
  }

  /// Writes zeros behind a WQE of an odd number of segments. The NIC ignores them: the control segment has
  /// the number that counts.
  ///
  /// Measured on an H200 and an H100 (docs/performance.md): many queues that exceed the L2 cache take more
  /// posts if no sector of 32 bytes is half written. Only a warp's lists fill, and its posts that find their
  /// slots free; for a thread or a block the store costs more than it wins.
  WARPVERBS_DEVICE void Fill(uint32_t segments) const {
    if (segments % 2 != 0) Store(At(segments), {0, 0});
  }

  /// Writes a segment of two 64-bit operands.
  WARPVERBS_DEVICE void Pair64(uint32_t segment, uint64_t first, uint64_t second) const {
    Store(At(segment), {A::ToBe64(first).raw, A::ToBe64(second).raw});
  }

  /// Writes a segment of four 32-bit operands.
  WARPVERBS_DEVICE void Quad32(uint32_t segment, const uint32_t (&words)[4]) const {
    Store(At(segment), {A::Join(A::ToBe32(words[0]).raw, A::ToBe32(words[1]).raw),
                        A::Join(A::ToBe32(words[2]).raw, A::ToBe32(words[3]).raw)});
  }

  /// Writes the payload behind the remote address, and returns its number of segments.
  template <InlineValue T>
  WARPVERBS_DEVICE uint32_t Inline(const T& value) const {
    uint32_t words[8] = {A::ToBe32(mlx5::kInlineFlag | static_cast<uint32_t>(sizeof(T))).raw};
    __builtin_memcpy(words + 1, &value, sizeof(T));
    Store(At(2), {A::Join(words[0], words[1]), A::Join(words[2], words[3])});
    if constexpr (sizeof words[0] + sizeof(T) <= mlx5::kSegmentBytes) return 1;
    Store(At(3), {A::Join(words[4], words[5]), A::Join(words[6], words[7])});
    return 2;
  }

 private:
  WARPVERBS_DEVICE void Store(uint8_t* segment, const SegmentWords& words) const {
    if constexpr (kConditional) {
      A::StoreSegmentIf(writes_, segment, words.low, words.high);
    } else {
      A::StoreSegment(segment, words.low, words.high);
    }
  }

  WARPVERBS_DEVICE uint8_t* SlotOf(uint32_t index) const {
    return view_.sq + uint64_t{index & (view_.depth - 1)} * mlx5::kWqebbBytes;
  }

  /// Returns the place of a segment: a WQE of several slots continues at the start of the queue past its end.
  WARPVERBS_DEVICE uint8_t* At(uint32_t segment) const {
    uint8_t* const slot = segment < kSegmentsPerSlot ? slot_ : SlotOf(index_ + segment / kSegmentsPerSlot);
    return slot + segment % kSegmentsPerSlot * mlx5::kSegmentBytes;
  }

  const QueueView& view_;
  uint32_t index_;
  uint8_t* slot_;
  bool writes_;
};

}  // namespace warpverbs::inline v0_2::device
