#pragma once

#include <type_traits>

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/mlx5/wqe.hpp"

/// The one encoder: a request becomes the 64 bytes of a send queue slot, as rdma-core's libmlx5 writes them.
namespace warpverbs::device {

/// Memory of the peer. The host swaps the key once (mlx5::ToBe32), so that no kernel has to.
struct RemoteMemory {
  uint64_t addr;
  mlx5::Be32 rkey;
};

/// Memory of this side.
struct LocalMemory {
  uint64_t addr;
  uint32_t bytes;  ///< below 2^31, and no more than the device's longest message; 0 makes an empty message
  mlx5::Be32 lkey;
};

/// What fits into a slot behind the control, remote address and inline header.
inline constexpr uint32_t kMaxInlineWriteBytes = 28;

/// A value that can travel in a WQE.
template <class T>
concept InlineValue = std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxInlineWriteBytes;

/// Writes one WQE into its slot, 16 bytes at a time.
///
/// Every WQE here takes one slot, so an index names a WQE and the next one is one further.
///
/// @source  rdma-core v44, providers/mlx5/qp.c, _mlx5_post_send(); byte for byte in tests/{device,e2e}
template <arch::Arch A>
class WqeWriter {
 public:
  /// @param flags  mlx5::CtrlFlags
  WARPVERBS_DEVICE WqeWriter(const QueueView& view, uint32_t index, uint32_t flags)
      : slot_(view.sq + uint64_t{index & (view.depth - 1)} * mlx5::kWqebbBytes),
        index_(index),
        qpn_be_(view.qpn_be),
        flags_(flags) {}

  /// Writes the control segment, and returns its first 8 bytes: what the doorbell register takes.
  WARPVERBS_DEVICE mlx5::Be64 Control(mlx5::WqeOpcode opcode, uint32_t segments, mlx5::Be32 imm = {0}) const {
    const mlx5::Be32 index_opcode = A::ToBe32((index_ & 0xffff) << 8 | static_cast<uint32_t>(opcode));
    const uint64_t first = Join(index_opcode.raw, qpn_be_ | segments << 24);
    A::StoreSegment(slot_, first, Join(flags_ << 24, imm.raw));
    return {first};
  }

  WARPVERBS_DEVICE void Remote(const RemoteMemory& remote) const {
    A::StoreSegment(slot_ + 16, A::ToBe64(remote.addr).raw, remote.rkey.raw);
  }

  /// Writes a data segment; returns how many: none for an empty message, since a length of 0 means 2 GiB.
  WARPVERBS_DEVICE uint32_t Data(uint32_t segment, const LocalMemory& local) const {
    if (local.bytes == 0) return 0;
    A::StoreSegment(slot_ + segment * mlx5::kSegmentBytes, Join(A::ToBe32(local.bytes).raw, local.lkey.raw),
                    A::ToBe64(local.addr).raw);
    return 1;
  }

  WARPVERBS_DEVICE void Atomic(uint64_t swap_or_add, uint64_t compare) const {
    A::StoreSegment(slot_ + 32, A::ToBe64(swap_or_add).raw, A::ToBe64(compare).raw);
  }

  /// Puts the payload itself behind the remote address, and returns how many segments that makes.
  template <InlineValue T>
  WARPVERBS_DEVICE uint32_t Inline(const T& value) const {
    uint32_t words[8] = {A::ToBe32(mlx5::kInlineFlag | static_cast<uint32_t>(sizeof(T))).raw};
    __builtin_memcpy(words + 1, &value, sizeof(T));
    A::StoreSegment(slot_ + 32, Join(words[0], words[1]), Join(words[2], words[3]));
    if constexpr (sizeof words[0] + sizeof(T) <= mlx5::kSegmentBytes) return 1;
    A::StoreSegment(slot_ + 48, Join(words[4], words[5]), Join(words[6], words[7]));
    return 2;
  }

 private:
  /// Two 32-bit words as they follow each other in memory.
  WARPVERBS_DEVICE static uint64_t Join(uint32_t first, uint32_t second) {
    return uint64_t{second} << 32 | first;
  }

  uint8_t* slot_;
  uint32_t index_;
  uint32_t qpn_be_;
  uint32_t flags_;
};

}  // namespace warpverbs::device
