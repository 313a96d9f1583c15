#pragma once

#include <infiniband/mlx5dv.h>

#include <cstdint>
#include <optional>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/handle.hpp"

namespace warpverbs::host {

/// Where completion queues announce a completion, for threads that would rather sleep than poll: a file that
/// becomes readable.
///
/// A queue announces only when it was asked to by a CompletionAlarm, and once for each time.
class CompletionChannel {
 public:
  /// @param device  must outlive this
  /// @errors  Error: the kernel or the device has no event channels
  explicit CompletionChannel(const Device& device);

  /// For poll(), epoll or an event loop, and for nothing else. It does not block.
  int fd() const { return channel_->fd; }

  /// Takes an announcement.
  ///
  /// @return  the cookie of the queue; empty: there is none now
  /// @errors  Error: the device has gone
  std::optional<uint64_t> Take();

  /// Lets a queue announce here, as long as this lives.
  ///
  /// @param queue   a completion queue
  /// @param cookie  by which Take() names it
  /// @errors  Error
  void Subscribe(mlx5dv_devx_obj* queue, uint64_t cookie);

 private:
  const Device& device_;
  Handle<mlx5dv_devx_event_channel, mlx5dv_devx_destroy_event_channel> channel_;
};

/// Asks a completion queue to announce its next completion.
///
/// Nothing is missed by who first takes all completions, then arms, and only then sleeps: what came in
/// between is announced at once. One thread uses it at a time.
class CompletionAlarm {
 public:
  /// @param record    the second word of the queue's doorbell record
  /// @param doorbell  the register for completion queues on the queue's UAR page
  CompletionAlarm(uint32_t* record, uint64_t* doorbell, uint32_t cqn)
      : record_(record), doorbell_(doorbell), cqn_(cqn) {}

  /// Asks, unless it has asked and was not answered yet.
  ///
  /// @param consumer_index  completions taken so far
  /// @source  rdma-core v44, providers/mlx5/cq.c, mlx5_arm_cq()
  void Arm(uint32_t consumer_index);

  /// The announcement was taken: the next request has the next sequence number.
  void OnAnnounced();

 private:
  uint32_t* record_;
  uint64_t* doorbell_;
  uint32_t cqn_;
  uint32_t sequence_ = 0;
  bool armed_ = false;
};

}  // namespace warpverbs::host
