#pragma once

#include <cstdint>
#include <memory>

#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

class Device;
class Gpu;

/// Settings of SharedCompletions.
struct SharedCompletionsConfig {
  uint32_t depth = 1024;    ///< in CQEs; rounded up to a power of two. At least the sum of the queues' depths
  uint32_t max_queues = 8;  ///< endpoints at a time
  const Gpu* gpu = nullptr;  ///< GPU whose kernels post to all the queues; nullptr: CPU threads post
};

/// One ring of completions for the send queues of several endpoints: see EndpointConfig::completions.
///
/// The ring and the queues are in host memory, mapped for the GPU whose kernels post to all queues of the
/// ring. Posters of any of the queues drain the ring for all of them; the host drains it too, when an
/// endpoint is reset or destroyed. Must outlive the endpoints and all kernels that use them. Thread-safe.
///
/// @pre  no GPU uses any queue of the ring while an endpoint of it is reset or destroyed: host and GPU would
///       both drain it, and the ring's lock does not hold between a host and a GPU on PCIe
/// @source  CUDA C++ Programming Guide 13.0, Mapped Memory: atomics on it are not atomic for the host
class WARPVERBS_EXPORT SharedCompletions {
 public:
  /// @param device  must outlive this
  /// @errors  Error: an option is out of range; the device's completions do not name their queue; names the
  ///          step and the firmware's syndrome
  explicit SharedCompletions(const Device& device, const SharedCompletionsConfig& config = {});
  ~SharedCompletions();
  SharedCompletions(const SharedCompletions&) = delete;
  SharedCompletions& operator=(const SharedCompletions&) = delete;

  uint32_t cqn() const;
  uint32_t depth() const;

  /// The state that the ring's consumers share.
  device::CompletionRingControl& control() const;

  /// Takes the ring from a poster that died while it held the lock, which no Reset() can wait for, and frees
  /// the places of endpoints that were destroyed meanwhile.
  ///
  /// @pre     no kernel uses any queue of the ring
  /// @errors  Error: a poster uses it nevertheless; no place is freed
  void Recover();

 private:
  friend class CompletionsAttachment;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warpverbs::inline v0_2::host
