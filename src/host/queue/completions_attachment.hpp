#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "memory/umem.hpp"
#include "queue/completion_queue.hpp"
#include "queue/uar.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/shared_completions.hpp"

namespace warpverbs::inline v0_2::host {

/// Waits until every completion that is on a ring now is delivered to its queue.
///
/// @pre     all posters at work are threads of the host
/// @errors  false: a poster holds the ring's lock and does not give it back
bool DrainAll(device::CompletionRingControl& ring);

class SharedCompletions::Impl {
 public:
  Impl(const Device& device, const SharedCompletionsConfig& config);

  const Device& device() const { return device_; }
  std::optional<int> gpu() const { return gpu_; }
  uint32_t depth() const { return depth_; }
  const std::shared_ptr<const CompletionQueue>& cq() const { return cq_; }  ///< alive while the ring is
  device::CompletionRingControl& control() const;
  void Recover();

  uint32_t Attach(device::QueueControl& queue, uint32_t depth);
  void Detach(uint32_t user_index);

 private:
  /// Offsets of the parts in the memory, in bytes; the CQEs come first.
  struct Layout {
    Layout(uint32_t depth, uint32_t max_queues);
    size_t control, queues, dbr, bytes;
  };

  void Free(uint32_t user_index);
  device::QueueControl** queues() const;

  const Device& device_;
  std::optional<int> gpu_;  // ordinal of the GPU whose kernels post; empty: CPU threads
  uint32_t depth_;
  Layout layout_;
  HostPages pages_;
  std::optional<GpuMapping> mapping_;
  Uar uar_;
  Umem umem_;
  std::shared_ptr<const CompletionQueue> cq_;
  std::mutex mutex_;
  uint32_t used_ = 0;             // CQEs that the queues may have outstanding; under mutex_
  std::vector<uint32_t> depths_;  // of the queues, by user index; 0: a free place. Under mutex_
};

/// One queue's place in a ring of shared completions, while this lives.
class CompletionsAttachment {
 public:
  /// @param gpu    ordinal of the GPU whose kernels post to the queue; empty: CPU threads post
  /// @param queue  receives this queue's completions; must outlive this
  /// @param depth  of the queue, in WQEBBs
  /// @errors  Error: another device or another processor than the ring's, or the ring has no room for another
  ///          queue or for one so deep
  CompletionsAttachment(SharedCompletions& ring, const Device& device, std::optional<int> gpu,
                        device::QueueControl& queue, uint32_t depth);
  /// Takes what the ring still has for the queue, so that the place's next user does not get it. If a poster
  /// holds the ring, the place stays taken until Recover().
  ///
  /// @pre  the queue pair is destroyed; a poster that holds the ring for a second is dead, as it would go
  ///       on to write to the queue's control words
  ~CompletionsAttachment();
  CompletionsAttachment(const CompletionsAttachment&) = delete;
  CompletionsAttachment& operator=(const CompletionsAttachment&) = delete;

  SharedCompletions& ring() const { return ring_; }
  const std::shared_ptr<const CompletionQueue>& cq() const;  ///< alive while the ring is
  uint32_t user_index() const { return user_index_; }

 private:
  SharedCompletions& ring_;
  uint32_t user_index_;
};

}  // namespace warpverbs::inline v0_2::host
