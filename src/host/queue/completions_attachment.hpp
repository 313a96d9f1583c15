#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/owner_process.hpp"
#include "memory/umem.hpp"
#include "queue/completion_queue.hpp"
#include "queue/uar.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/shared_completions.hpp"

namespace warpverbs::inline v0_2::host {

/// Blocks until every completion now on a ring is delivered to its queue.
///
/// @pre     all active posters are host threads
/// @errors  false: a poster holds the ring's lock and does not release it
bool DrainAll(device::CompletionRingControl& ring);

class SharedCompletions::Impl {
 public:
  Impl(const Device& device, const SharedCompletionsConfig& config);

  bool InOwnProcess() const { return owner_.IsThisOne(); }
  const Device& device() const { return device_; }
  std::optional<int> gpu() const { return gpu_; }
  uint32_t depth() const { return depth_; }
  const std::shared_ptr<const CompletionQueue>& cq() const { return cq_; }
  device::CompletionRingControl& control() const;
  void Recover();

  uint32_t Attach(device::QueueControl& queue, uint32_t depth);
  void Detach(uint32_t user_index);

 private:
  /// Offsets of the parts of the memory, in bytes; the CQEs come first.
  struct Layout {
    Layout(uint32_t depth, uint32_t max_queues);
    size_t control, queues, dbr, bytes;
  };

  void Free(uint32_t user_index) WARPVERBS_REQUIRES(mutex_);
  device::QueueControl** queues() const;

  const OwnerProcess owner_;
  const Device& device_;
  std::optional<int> gpu_;  // ordinal of the GPU whose kernels post; empty: CPU threads
  uint32_t depth_;
  Layout layout_;
  HostPages pages_;
  std::optional<GpuMapping> mapping_;
  Uar uar_;
  Umem umem_;
  std::shared_ptr<const CompletionQueue> cq_;
  sync::Mutex mutex_;
  uint32_t used_ WARPVERBS_GUARDED_BY(mutex_) = 0;             // sum of the queues' depths
  std::vector<uint32_t> depths_ WARPVERBS_GUARDED_BY(mutex_);  // by user index; 0: free
};

/// Holds one queue's place in a ring of shared completions.
class CompletionsAttachment {
 public:
  /// @param gpu    ordinal of the GPU whose kernels post to the queue; empty: CPU threads post
  /// @param queue  where this queue's completions are delivered; must outlive this
  /// @param depth  depth of the queue, in WQEBBs
  /// @errors  Error: another device or processor than the ring's, or the ring is full
  CompletionsAttachment(SharedCompletions& ring, const Device& device, std::optional<int> gpu,
                        device::QueueControl& queue, uint32_t depth);
  /// Drains the ring, so that the place's next user gets no completion of this queue. If a poster holds the
  /// ring's lock, the place stays taken until Recover().
  ///
  /// @pre  the queue pair is destroyed; a poster that has held the lock for a second is dead, otherwise it
  ///       would still write to the queue's control words
  ~CompletionsAttachment();
  CompletionsAttachment(const CompletionsAttachment&) = delete;
  CompletionsAttachment& operator=(const CompletionsAttachment&) = delete;

  SharedCompletions& ring() const { return ring_; }
  const std::shared_ptr<const CompletionQueue>& cq() const;
  uint32_t user_index() const { return user_index_; }

 private:
  SharedCompletions& ring_;
  uint32_t user_index_;
};

}  // namespace warpverbs::inline v0_2::host
