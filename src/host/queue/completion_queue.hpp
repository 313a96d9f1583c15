#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/devx_object.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/detail/completion_cursor.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/mlx5/cqe.hpp"

namespace warpverbs::inline v0_2::host {

/// Location and mode of a completion queue.
struct CompletionQueueConfig {
  CqMode mode = CqMode::kRing;
  uint32_t depth = 1;  ///< in CQEs; a power of two, at least the sum of its queues' depths: it cannot overrun
  uint32_t uar_page = 0;
  uint32_t umem_id = 0;
  uint64_t cqes_offset = 0;  ///< in the umem
  uint64_t dbr_offset = 0;
};

/// Byte that software fills a new CQE with: opcode 15, and the owner bit of a round that never comes.
inline constexpr int kInvalidCqe = 0xff;

/// Allocates zeroed pages that contain invalid CQEs.
///
/// @param cqes       offset of the first CQE, in bytes
/// @param cqe_bytes  size of all CQEs
/// @errors  Error: out of memory
HostPages PagesWithCqes(size_t bytes, size_t cqes, size_t cqe_bytes);

/// Returns the consumer index, modulo twice the depth, that follows the newest completion of a ring.
///
/// @pre  nothing completes during the call
inline uint32_t EndOfRing(const device::CqView& ring) {
  const device::Cqes<arch::Cpu> cqes{ring.cqe, ring.depth};
  arch::CqeTail tail = cqes.Load(0);
  if (device::Opcode(tail) == mlx5::CqeOpcode::kInvalid) return 0;
  const uint32_t round = device::OwnerBit(tail) ? ring.depth : 0;
  return (cqes.NewestBefore(round + ring.depth, round, tail) + 1) & (2 * ring.depth - 1);
}

/// Returns the index of the oldest completion on a ring that may not have been delivered.
///
/// A poster that died while it drained the ring has delivered up to `depth - 1` completions behind the index,
/// and the queues may have posted as many more: see device::Drain(). So the NIC is less than two rounds ahead
/// of the index, and the ring holds the newest round.
///
/// A poster that lives moves the index on, so that the ring's end no longer tells how far the NIC is ahead of
/// the index that was loaded: that index is the answer then.
///
/// @param consumer  CompletionRingControl::consumer, loaded before the ring was read
/// @param reload    loads it again
template <class Reload>
uint32_t OldestOnRing(const device::CqView& ring, uint64_t consumer, const Reload& reload) {
  const auto index = static_cast<uint32_t>(consumer);
  if ((consumer & device::kRingLocked) == 0) return index;
  const uint32_t behind = (EndOfRing(ring) - index) & (2 * ring.depth - 1);
  return behind > ring.depth && reload() == consumer ? index + behind - ring.depth : index;
}

/// Returns a queue pair's first error on a ring that posters have not consumed yet, in the form of
/// device::ErrorWord(); 0: none. Only reads, so any thread may call it while others drain the ring.
///
/// @param consumer_index  OldestOnRing()
uint64_t FirstError(const device::CqView& ring, uint32_t consumer_index, uint32_t qpn);

/// Returns the first of the consecutive errors at the end of a ring, in the form of device::ErrorWord(); 0:
/// its newest completion is no error, or the NIC is about to write others. Only reads.
uint64_t ErrorAtEnd(const device::CqView& ring);

/// Bytes to write to a CQE: its counter, signature, opcode and owner.
struct CqePatch {
  size_t offset;  ///< in bytes from the ring's first CQE
  std::array<uint8_t, 4> bytes;
};

/// Returns the writes that make a ring's newest CQE, and each that is an error, a success of the WQE before
/// index 0: nothing of a queue pair's earlier life can then be taken for its next one.
///
/// @pre   nothing completes during the call; no CQE is needed any more
std::vector<CqePatch> AsBeforeIndex0(const device::CqView& ring);

/// A completion queue of 64-byte CQEs that software polls. CompletionChannel delivers its events.
class CompletionQueue {
 public:
  /// @pre  every byte of every CQE is 0xff: its opcode is invalid, so that no CQE reads as a completion,
  ///       and its counter is that of the entry before the first
  /// @errors  Error
  CompletionQueue(ibv_context* context, const CompletionQueueConfig& config);

  uint32_t cqn() const { return cq_.number(); }
  mlx5dv_devx_obj* object() const { return cq_.object(); }

 private:
  DevxObject cq_;
};

}  // namespace warpverbs::inline v0_2::host
