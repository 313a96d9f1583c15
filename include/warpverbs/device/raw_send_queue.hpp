#pragma once

#include "warpverbs/device/detail/completion_cursor.hpp"
#include "warpverbs/device/detail/waiter.hpp"
#include "warpverbs/device/operations.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

namespace warpverbs::inline v0_2::device {

/// A send queue for code that keeps the indices and schedules the doorbells itself; SendQueue does both.
///
/// Each Post writes an operation from slot `index` on, a free-running count that starts at 0, and returns the
/// argument of RingDoorbell() in case it is the last one. `flags` are mlx5::CtrlFlags; by default each
/// operation reports its completion. A send or a write with immediate consumes a receive of the peer.
///
/// @pre  the slots are free: WQE `index - depth` and as many after it as the operation takes are complete
template <arch::Arch A>
class RawSendQueue {
 public:
  WARPVERBS_DEVICE explicit RawSendQueue(const QueueView& view) : view_(view) {}

  /// Posts any operation: see operations.hpp. The functions below post one slot: a message that is at most as
  /// long as the device's longest.
  template <class Operation>
  WARPVERBS_DEVICE mlx5::Be64 Post(uint32_t index, const Operation& operation,
                                   uint32_t flags = mlx5::kCqeAlways) const {
    return operation.template Encode<A>(view_, index, flags);
  }

  WARPVERBS_DEVICE mlx5::Be64 PostWrite(uint32_t index, const RemoteMemory& remote, const LocalMemory& local,
                                        uint32_t flags = mlx5::kCqeAlways) const {
    return Write(remote, local).template EncodeOne<A>(view_, index, flags);
  }
  WARPVERBS_DEVICE mlx5::Be64 PostWriteImm(uint32_t index, const RemoteMemory& remote,
                                           const LocalMemory& local, mlx5::Be32 imm,
                                           uint32_t flags = mlx5::kCqeAlways) const {
    return WriteImm(remote, local, imm).template EncodeOne<A>(view_, index, flags);
  }
  template <InlineValue T>
  WARPVERBS_DEVICE mlx5::Be64 PostWriteInline(uint32_t index, const RemoteMemory& remote, const T& value,
                                              uint32_t flags = mlx5::kCqeAlways) const {
    return Post(index, WriteInline<T>{remote, value}, flags);
  }
  WARPVERBS_DEVICE mlx5::Be64 PostRead(uint32_t index, const RemoteMemory& remote, const LocalMemory& local,
                                       uint32_t flags = mlx5::kCqeAlways) const {
    return Read(remote, local).template EncodeOne<A>(view_, index, flags);
  }
  WARPVERBS_DEVICE mlx5::Be64 PostSend(uint32_t index, const LocalMemory& local,
                                       uint32_t flags = mlx5::kCqeAlways) const {
    return Send(local).template EncodeOne<A>(view_, index, flags);
  }

  /// Hands every WQE below `end` to the NIC; it fetches them when the doorbell rings.
  ///
  /// @param end  index past the last WQE
  /// @pre    one caller at a time; the WQEs below `end` are visible to it
  /// @source rdma-core v44, providers/mlx5/qp.c, post_send_db(): WQEs, then record, then doorbell
  WARPVERBS_DEVICE void UpdateSendDbrRecord(uint32_t end) const {
    if (view_.dbrec != nullptr) A::StoreRelease(view_.dbrec, A::ToBe32(end & mlx5::kQpDbrIndexMask).raw);
  }

  /// Rings the doorbell register.
  ///
  /// @param doorbell  result of the last WQE's Post
  WARPVERBS_DEVICE void RingDoorbell(mlx5::Be64 doorbell) const {
    const bool combines = (view_.flags & kWriteCombining) != 0;
    A::StoreReleaseMmio(view_.doorbell, doorbell,
                        combines ? arch::Mmio::kWriteCombining : arch::Mmio::kUncached);
  }

  /// Tests whether WQE `index` is complete: kOk, kPending or kError.
  ///
  /// It looks for the newest completion: one load on a collapsed CQ; on a ring two, and one more for each
  /// doubling of its depth. A consumer that takes a ring's CQEs in order loads each once: CompletionRing.
  ///
  /// @pre  fewer than 2^15 WQEs were posted after `index`
  WARPVERBS_DEVICE Status PollCqOnce(uint32_t index) const {
    uint32_t number;
    arch::CqeTail tail;
    if (!Cqes<A>{view_.cqe, view_.cq_depth}.FindNewest(number, tail)) return {.code = Code::kPending};
    if (IsError(tail)) return ErrorStatus(ErrorWord(tail));
    // A WQE ahead of the newest completion reads as up to 2^16 behind it. A queue has at most 2^15 WQEs, so
    // half of the range is behind.
    if (static_cast<uint16_t>(WqeCounter(tail) - index) >= 0x8000) return {.code = Code::kPending};
    A::AcquireAfterCompletion();
    return {};
  }

  /// Waits until WQE `index` is complete.
  ///
  /// @errors  kTimeout, kAborted: the WQE may still complete. kError: the queue pair has failed, maybe after
  /// this WQE
  WARPVERBS_DEVICE Status PollCq(uint32_t index, const WaitLimit& limit) const {
    return WaitForStatus<A>(limit, [&] { return PollCqOnce(index); });
  }

  WARPVERBS_DEVICE const QueueView& view() const { return view_; }

 private:
  QueueView view_;
};

}  // namespace warpverbs::inline v0_2::device
