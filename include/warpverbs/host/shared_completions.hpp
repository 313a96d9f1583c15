#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/host/completion_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gpu_memory.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/uar.hpp"
#include "warpverbs/host/umem.hpp"

namespace warpverbs::host {

struct SharedCompletionsConfig {
  uint32_t depth = 1024;     ///< in CQEs; rounded up to a power of two. The queues' depths must fit into it
  uint32_t max_queues = 8;   ///< endpoints at a time
  const Gpu* gpu = nullptr;  ///< whose kernels post to all queues of the ring; nullptr: threads of the CPU do
};

/// Waits until every completion that is on a ring now is delivered to its queue.
///
/// @pre     all posters at work are threads of the host
/// @errors  false: a poster holds the ring's lock and does not give it back
bool Settle(device::CompletionRingControl& ring);

/// One ring of completions for the send queues of several endpoints: see EndpointConfig::completions.
///
/// It lies in host memory, mapped for the GPU whose kernels post to all queues of the ring, and so do the
/// queues: the host drains it too, when an endpoint is reset or goes. Posters of any of the queues drain it
/// for all of them. Must outlive the endpoints, and no kernel that uses them may outlive it. Thread-safe.
///
/// @pre  no GPU uses any queue of the ring while an endpoint of it is reset or destroyed: host and GPU would
///       both drain it, and where the GPU is on PCIe the lock does not hold between them
/// @source  CUDA C++ Programming Guide 13.0, Mapped Memory: atomics on it are not atomic for the host
class SharedCompletions {
 public:
  /// @param device  must outlive this
  /// @errors  Error: an option is out of range; the device's completions do not name their queue; names the
  ///          step and the firmware's syndrome
  explicit SharedCompletions(const Device& device, const SharedCompletionsConfig& config = {});
  SharedCompletions(const SharedCompletions&) = delete;
  SharedCompletions& operator=(const SharedCompletions&) = delete;

  uint32_t cqn() const { return cq_->cqn(); }
  const std::shared_ptr<const CompletionQueue>& cq() const { return cq_; }  ///< while the ring lives
  uint32_t depth() const { return depth_; }

  /// What its consumers share.
  device::CompletionRingControl& control() const;

  /// Takes the ring from a poster that died with it in hand, which no Reset() can wait for, and gives back
  /// the places of endpoints that went away meanwhile.
  ///
  /// @pre  no kernel uses any queue of the ring
  void Recover();

  /// One queue's place in the ring, while this lives.
  class Seat {
   public:
    /// @param gpu    whose kernels post to the queue, by its ordinal; none: threads of the CPU
    /// @param queue  gets this queue's completions; must outlive this
    /// @param depth  of the queue, in WQEBBs
    /// @errors  Error: another device or another processor than the ring's, or the ring has no room for one
    ///          more queue or for such a deep one
    Seat(SharedCompletions& ring, const Device& device, std::optional<int> gpu, device::QueueControl& queue,
         uint32_t depth);
    /// Takes what the ring still has for the queue, so that nobody who comes after gets it. Where a poster
    /// holds the ring, nobody gets the place before Recover().
    ///
    /// @pre  the queue pair is destroyed; a poster that holds the ring for a second is dead, as it would go
    ///       on to write to the queue's control words
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    SharedCompletions& ring() const { return ring_; }
    uint32_t user_index() const { return user_index_; }

   private:
    SharedCompletions& ring_;
    uint32_t user_index_;
  };

 private:
  /// Where the parts lie in the memory, in bytes from the start: first the CQEs.
  struct Layout {
    Layout(uint32_t depth, uint32_t max_queues);
    size_t control, queues, dbr, bytes;
  };

  uint32_t Join(device::QueueControl& queue, uint32_t depth);
  void Leave(uint32_t user_index);
  void Free(uint32_t user_index);
  device::QueueControl** queues() const;

  const Device& device_;
  std::optional<int> gpu_;  // as Seat has it
  uint32_t depth_;
  Layout layout_;
  HostPages pages_;
  std::optional<GpuMapping> mapping_;
  Uar uar_;
  Umem umem_;
  std::shared_ptr<const CompletionQueue> cq_;
  std::mutex mutex_;
  uint32_t used_ = 0;             // CQEs that the queues may have under way; under mutex_
  std::vector<uint32_t> depths_;  // of the queues, by user index; 0: a free place. Under mutex_
};

}  // namespace warpverbs::host
