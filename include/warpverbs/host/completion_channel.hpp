#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/version.hpp"

struct mlx5dv_devx_event_channel;
struct mlx5dv_devx_obj;

namespace warpverbs::inline v0_2::host {

class Device;

/// A file that becomes readable when a completion queue announces a completion, for threads that would rather
/// sleep than poll.
///
/// A queue announces one completion for each request by its CompletionAlarm.
class WARPVERBS_EXPORT CompletionChannel {
 public:
  /// @param device  must outlive this
  /// @errors  Error: the kernel or the device has no event channels
  explicit CompletionChannel(const Device& device);

  /// For poll(), epoll or an event loop, and for nothing else. It does not block.
  int fd() const;

  /// Takes an announcement.
  ///
  /// @return  the cookie of the queue; empty if none has announced
  /// @errors  Error: the device has gone
  std::optional<uint64_t> Take();

  /// Lets a queue announce here, as long as this lives.
  ///
  /// @param queue   a completion queue
  /// @param cookie  its name in Take()
  /// @errors  Error
  void Subscribe(mlx5dv_devx_obj* queue, uint64_t cookie);

  /// Lets the firmware announce here that a queue has failed: nothing completes on it any more.
  ///
  /// @param queue   a completion queue
  /// @param cookie  its name in Take(), another than that of Subscribe()
  /// @errors  Error
  void SubscribeToFailure(mlx5dv_devx_obj* queue, uint64_t cookie);

 private:
  void Subscribe(mlx5dv_devx_obj* queue, uint16_t type, uint64_t cookie);

  struct Destroy {
    void operator()(mlx5dv_devx_event_channel* channel) const;
  };

  const Device& device_;
  std::unique_ptr<mlx5dv_devx_event_channel, Destroy> channel_;
};

/// Asks a completion queue to announce its next completion.
///
/// Take all completions, then arm, and only then sleep: the queue announces at once what completed in
/// between. One thread may use it at a time.
class WARPVERBS_EXPORT CompletionAlarm {
 public:
  /// @param record    the second word of the queue's doorbell record
  /// @param doorbell  the register for completion queues on the queue's UAR page
  /// @param mapping   how that page is mapped
  CompletionAlarm(uint32_t* record, uint64_t* doorbell, arch::Mmio mapping, uint32_t cqn)
      : record_(record), doorbell_(doorbell), cqn_(cqn), mapping_(mapping) {}

  /// Asks, unless an earlier request is still unanswered.
  ///
  /// @param consumer_index  completions taken so far
  /// @source  rdma-core v44, providers/mlx5/cq.c, mlx5_arm_cq()
  void Arm(uint32_t consumer_index);

  /// Notes that the announcement was taken: the next request has the next sequence number.
  void OnAnnounced();

 private:
  uint32_t* record_;
  uint64_t* doorbell_;
  uint32_t cqn_;
  arch::Mmio mapping_;
  uint32_t sequence_ = 0;
  bool armed_ = false;
};

}  // namespace warpverbs::inline v0_2::host
