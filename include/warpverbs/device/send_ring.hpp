#pragma once

#include "warpverbs/device/completion.hpp"
#include "warpverbs/device/wqe.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

namespace warpverbs::device {

/// A send queue for those who keep its indices and schedule its doorbells themselves; SendQueue does both.
///
/// Each Post writes the WQE of `index`, a free-running count that starts at 0, and returns what
/// RingDoorbell() takes if it is the last one to ring for. `flags` are mlx5::CtrlFlags; by default each WQE
/// reports its completion. Sends and writes with immediate take a receive of the peer.
///
/// @pre  the slot is free: WQE `index - depth` is complete
template <arch::Arch A>
class SendRing {
 public:
  WARPVERBS_DEVICE explicit SendRing(const QueueView& view) : view_(view) {}

  WARPVERBS_DEVICE mlx5::Be64 PostWrite(uint32_t index, const RemoteMemory& remote, const LocalMemory& local,
                                        uint32_t flags = mlx5::kCqeAlways) const {
    return PostRdma(mlx5::WqeOpcode::kRdmaWrite, {view_, index, flags}, remote, local);
  }

  /// Writes, and uses up a receive of the peer, whose completion shows `imm` as it is stored here.
  WARPVERBS_DEVICE mlx5::Be64 PostWriteImm(uint32_t index, const RemoteMemory& remote,
                                           const LocalMemory& local, mlx5::Be32 imm,
                                           uint32_t flags = mlx5::kCqeAlways) const {
    return PostRdma(mlx5::WqeOpcode::kRdmaWriteImm, {view_, index, flags}, remote, local, imm);
  }

  /// Writes a value that travels in the WQE itself: it need not be registered, and may change at once.
  template <InlineValue T>
  WARPVERBS_DEVICE mlx5::Be64 PostWriteInline(uint32_t index, const RemoteMemory& remote, const T& value,
                                              uint32_t flags = mlx5::kCqeAlways) const {
    const WqeWriter<A> wqe(view_, index, flags);
    wqe.Remote(remote);
    return wqe.Control(mlx5::WqeOpcode::kRdmaWrite, 2 + wqe.Inline(value));
  }

  WARPVERBS_DEVICE mlx5::Be64 PostRead(uint32_t index, const RemoteMemory& remote, const LocalMemory& local,
                                       uint32_t flags = mlx5::kCqeAlways) const {
    return PostRdma(mlx5::WqeOpcode::kRdmaRead, {view_, index, flags}, remote, local);
  }

  WARPVERBS_DEVICE mlx5::Be64 PostSend(uint32_t index, const LocalMemory& local,
                                       uint32_t flags = mlx5::kCqeAlways) const {
    const WqeWriter<A> wqe(view_, index, flags);
    return wqe.Control(mlx5::WqeOpcode::kSend, 1 + wqe.Data(1, local));
  }

  WARPVERBS_DEVICE mlx5::Be64 PostSendImm(uint32_t index, const LocalMemory& local, mlx5::Be32 imm,
                                          uint32_t flags = mlx5::kCqeAlways) const {
    const WqeWriter<A> wqe(view_, index, flags);
    return wqe.Control(mlx5::WqeOpcode::kSendImm, 1 + wqe.Data(1, local), imm);
  }

  /// Adds to 8 bytes of the peer; their old value comes to `fetched`.
  ///
  /// @pre  `remote` is aligned to 8 bytes, and fetched.bytes is 8
  WARPVERBS_DEVICE mlx5::Be64 PostFetchAdd(uint32_t index, const RemoteMemory& remote,
                                           const LocalMemory& fetched, uint64_t addend,
                                           uint32_t flags = mlx5::kCqeAlways) const {
    return PostAtomic(mlx5::WqeOpcode::kAtomicFa, {view_, index, flags}, remote, fetched, {addend, 0});
  }

  /// What a compare-swap looks for, and what it puts there.
  struct CompareSwap {
    uint64_t compare;
    uint64_t swap;
  };

  /// Replaces 8 bytes of the peer if they match; their old value comes to `fetched`.
  ///
  /// @pre  as for PostFetchAdd
  WARPVERBS_DEVICE mlx5::Be64 PostCompareSwap(uint32_t index, const RemoteMemory& remote,
                                              const LocalMemory& fetched, const CompareSwap& operands,
                                              uint32_t flags = mlx5::kCqeAlways) const {
    return PostAtomic(mlx5::WqeOpcode::kAtomicCs, {view_, index, flags}, remote, fetched,
                      {operands.swap, operands.compare});
  }

  WARPVERBS_DEVICE mlx5::Be64 PostNop(uint32_t index, uint32_t flags = mlx5::kCqeAlways) const {
    return WqeWriter<A>(view_, index, flags).Control(mlx5::WqeOpcode::kNop, 1);
  }

  /// Hands every WQE below `end` to the NIC; it fetches them when the doorbell rings.
  ///
  /// @param end  index past the last WQE
  /// @pre    one caller at a time; the WQEs below `end` are visible to it
  /// @source rdma-core v44, providers/mlx5/qp.c, post_send_db(): WQEs, then record, then doorbell
  WARPVERBS_DEVICE void UpdateSendDbrRecord(uint32_t end) const {
    if (view_.dbrec != nullptr) A::StoreRelease(view_.dbrec, A::ToBe32(end & mlx5::kQpDbrIndexMask));
  }

  /// Tells the NIC to look.
  ///
  /// @param doorbell  what posting the last WQE returned
  WARPVERBS_DEVICE void RingDoorbell(mlx5::Be64 doorbell) const {
    A::StoreReleaseMmio(view_.doorbell, doorbell);
  }

  /// Says whether WQE `index` of a queue with a collapsed CQ is complete: kOk, kPending, or kError.
  ///
  /// @pre  fewer than 2^15 WQEs were posted after `index`
  WARPVERBS_DEVICE Status PollCqOnce(uint32_t index) const {
    const arch::CqeTail tail = A::LoadCqeTail(view_.cqe + mlx5::kCqeTailOffset);
    if (IsError(tail)) return ErrorStatus(ErrorWord(tail));
    // One ahead of the newest reads as 2^16 behind it. A queue has at most 2^15 WQEs, so half of the circle
    // is behind.
    if (static_cast<uint16_t>(WqeCounter(tail) - index) >= 0x8000) return {.code = Code::kPending};
    A::AcquireAfterCompletion();
    return {};
  }

  /// Waits until WQE `index` is complete.
  ///
  /// @errors  kTimeout, kAborted: the WQE may still complete. kError: the queue pair has failed, maybe after
  /// this WQE
  WARPVERBS_DEVICE Status PollCq(uint32_t index, const Limit& limit) const {
    for (Waiter<A> waiter(limit);;) {
      const Status status = PollCqOnce(index);
      if (status.code != Code::kPending) return status;
      if (const Code code = waiter.Next(); code != Code::kPending) return {.code = code};
    }
  }

  WARPVERBS_DEVICE const QueueView& view() const { return view_; }

 private:
  WARPVERBS_DEVICE static mlx5::Be64 PostRdma(mlx5::WqeOpcode opcode, const WqeWriter<A>& wqe,
                                              const RemoteMemory& remote, const LocalMemory& local,
                                              mlx5::Be32 imm = {0}) {
    wqe.Remote(remote);
    return wqe.Control(opcode, 2 + wqe.Data(2, local), imm);
  }

  struct AtomicOperands {
    uint64_t swap_or_add;
    uint64_t compare;
  };

  WARPVERBS_DEVICE static mlx5::Be64 PostAtomic(mlx5::WqeOpcode opcode, const WqeWriter<A>& wqe,
                                                const RemoteMemory& remote, const LocalMemory& fetched,
                                                const AtomicOperands& operands) {
    wqe.Remote(remote);
    wqe.Atomic(operands.swap_or_add, operands.compare);
    return wqe.Control(opcode, 3 + wqe.Data(3, fetched));
  }

  QueueView view_;
};

}  // namespace warpverbs::device
