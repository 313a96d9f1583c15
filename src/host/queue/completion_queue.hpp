#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "device/devx_object.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/mlx5/cqe.hpp"

namespace warpverbs::inline v0_2::host {

/// Where a completion queue lies and how it works.
struct CompletionQueueConfig {
  CqMode mode = CqMode::kCollapsed;
  uint32_t depth = 1;  ///< in CQEs; a power of two. As deep as all its queues together: it cannot overrun
  uint32_t uar_page = 0;
  uint32_t umem_id = 0;
  uint64_t cqes_offset = 0;  ///< in the umem
  uint64_t dbr_offset = 0;
};

/// What software fills a new CQE with: opcode 15 and the owner bit of a round that never comes.
inline constexpr int kInvalidCqe = 0xff;

/// Zeroed memory, but for the CQEs in it.
///
/// @param cqes       where they lie, in bytes from the start
/// @param cqe_bytes  of all of them
/// @errors  Error: out of memory
HostPages PagesWithCqes(size_t bytes, size_t cqes, size_t cqe_bytes);

/// Returns the consumer index, modulo twice the depth, after all completions of a ring are taken.
///
/// @pre  nothing completes meanwhile
uint32_t EndOfRing(const device::CqView& ring);

/// The first error of a queue pair among the completions that a ring's posters have not taken yet, as
/// device::ErrorWord() has it; 0: none. Only looks, so any thread may call it while others drain the ring.
///
/// @param consumer_index  of the posters
uint64_t FirstError(const device::CqView& ring, uint32_t consumer_index, uint32_t qpn);

/// The error that a ring ends in: the first of its newest errors; 0: its newest completion is none. Only
/// looks.
uint64_t ErrorAtEnd(const device::CqView& ring);

/// A byte to write to a CQE.
struct CqePatch {
  size_t offset;   ///< in bytes from the ring's first CQE
  uint8_t op_own;  ///< the byte
};

/// What to write to let a ring no longer end in an error: its newest CQE becomes a completion, which has been
/// taken. Empty: nothing has completed.
///
/// @pre   nothing completes meanwhile
std::optional<CqePatch> WithoutErrorAtEnd(const device::CqView& ring);

/// A completion queue of 64-byte CQEs that software polls; for events see CompletionChannel.
class CompletionQueue {
 public:
  /// @pre  every byte of every CQE is 0xff: its opcode is invalid, so that none is taken for a completion,
  ///       and its counter names the entry before the first
  /// @errors  Error
  CompletionQueue(ibv_context* context, const CompletionQueueConfig& config);

  uint32_t cqn() const { return cq_.number(); }
  mlx5dv_devx_obj* object() const { return cq_.object(); }

 private:
  DevxObject cq_;
};

}  // namespace warpverbs::inline v0_2::host
