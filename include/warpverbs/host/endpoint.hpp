#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/host/completion_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint_info.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/path.hpp"
#include "warpverbs/host/queue_layout.hpp"
#include "warpverbs/host/queue_pair.hpp"
#include "warpverbs/host/uar.hpp"
#include "warpverbs/host/umem.hpp"

namespace warpverbs::host {

/// All that may be chosen about an endpoint. The defaults work on any fabric.
struct EndpointConfig {
  uint32_t depth = 128;  ///< of the send queue, in WQEBBs (64 B); rounded up to a power of two, at most 32768
  CqMode cq_mode = CqMode::kCollapsed;
  uint8_t port = 0;         ///< 0: the first active one
  int gid_index = -1;       ///< -1: the best by Score()
  uint16_t pkey_index = 0;  ///< InfiniBand partition
  bool remote_read = true;  ///< the peer may read; a region's rkey must allow it too
  bool remote_write = true;
  bool remote_atomic = true;  ///< where the device has atomics
  PathConfig path{};
  RetryConfig retry{};
};

/// A reliable-connected queue pair whose send queue a kernel drives.
///
/// Owns the queues, the doorbell records and the doorbell's mapping. Views stay valid until destruction,
/// which no kernel that uses them may outlive. Not thread-safe.
class Endpoint {
 public:
  /// @param device  must outlive this
  /// @errors  Error: names the step and the firmware's syndrome
  explicit Endpoint(const Device& device, const EndpointConfig& config = {});
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  uint32_t qpn() const { return qp_.qpn(); }

  /// What the peer needs for its Connect().
  EndpointInfo Info() const;

  /// Takes the queue pair from RESET to RTS; once. Writes posted before the peer connects are retried.
  ///
  /// @errors  Error: a peer that cannot be reached, which leaves the endpoint as it was; a step that the
  ///          firmware refused, or a second call: make a new endpoint
  void Connect(const EndpointInfo& peer);

  /// The queue pair's state, from the firmware.
  ///
  /// @errors  Error
  mlx5::QpState State() const { return qp_.State(); }

  /// What a kernel needs to post and to see completions, by value.
  device::QueueView View() const;

  /// The ring of CQEs.
  ///
  /// @errors  Error: the completion queue is collapsed; View() has its one CQE
  device::CqView CompletionView() const;

  /// All that the views point to but the doorbell register, in whole pages: what a GPU must map.
  std::span<std::byte> QueueMemory() const { return pages_.bytes(); }

  /// Says in lines of text what was chosen and why.
  std::string Describe() const;

 private:
  template <class T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(pages_.data() + offset);
  }

  // Members are destroyed from the last to the first: the queue pair, its completion queue, the page
  // registrations, the doorbell, the memory. The firmware insists on much of that order.
  const Device& device_;
  LocalAddress local_;
  EndpointConfig config_;  // with the depth rounded
  uint32_t asked_depth_;
  QueueLayout layout_;
  uint32_t psn_;
  HostPages pages_;
  Uar uar_;
  Umem umem_;
  CompletionQueue cq_;
  QueuePair qp_;
  bool attempted_ = false;            // a transition has begun, so there is no way back to RESET
  std::optional<EndpointInfo> peer_;  // once connected
  Path path_;
};

}  // namespace warpverbs::host
