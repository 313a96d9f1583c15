#include "warpverbs/host/completion_channel.hpp"

#include <fcntl.h>
#include <infiniband/mlx5dv.h>

#include <cerrno>

#include "events/event.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using arch::Cpu;

/// @source  public PRM, "Event types"; Linux 6.6, include/linux/mlx5/device.h, MLX5_EVENT_TYPE_COMP
constexpr uint16_t kCompletionEvent = 0x00;

}  // namespace

void CompletionChannel::Destroy::operator()(mlx5dv_devx_event_channel* channel) const {
  mlx5dv_devx_destroy_event_channel(channel);
}

int CompletionChannel::fd() const { return channel_->fd; }

CompletionChannel::CompletionChannel(const Device& device)
    : device_(device),
      channel_(mlx5dv_devx_create_event_channel(device.context(),
                                                MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA)) {
  if (!channel_) {
    throw Error::FromErrno("create", "an event channel of " + device.name(), errno,
                           "Poll for completions instead, or use a kernel whose mlx5_ib has DEVX events");
  }
  const int flags = fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    throw Error::FromErrno("listen to", "the completions of " + device.name(), errno,
                           "Open the device again");
  }
}

std::optional<uint64_t> CompletionChannel::Take() {
  mlx5dv_devx_async_event_hdr event{};
  const ssize_t bytes = mlx5dv_devx_get_event(channel_.get(), &event, sizeof event);
  if (bytes >= 0) return event.cookie;
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
  throw Error::FromErrno("take", "an announcement of " + device_.name(), errno, "Open the device again");
}

void CompletionChannel::Subscribe(mlx5dv_devx_obj* queue, uint64_t cookie) {
  Subscribe(queue, kCompletionEvent, cookie);
}

void CompletionChannel::SubscribeToFailure(mlx5dv_devx_obj* queue, uint64_t cookie) {
  Subscribe(queue, kCqErrorEvent, cookie);
}

void CompletionChannel::Subscribe(mlx5dv_devx_obj* queue, uint16_t type, uint64_t cookie) {
  uint16_t types[] = {type};
  if (const int error =
          mlx5dv_devx_subscribe_devx_event(channel_.get(), queue, sizeof types, types, cookie)) {
    throw Error::FromErrno("subscribe to", "the completions of a queue on " + device_.name(), error,
                           "Poll for completions instead");
  }
}

void CompletionAlarm::Arm(uint32_t consumer_index) {
  if (armed_) return;
  armed_ = true;
  const uint32_t request = (sequence_ & 3) << 28 | (consumer_index & mlx5::kCqDbrIndexMask);
  Cpu::StoreRelease(record_, mlx5::ToBe32(request).raw);
  const mlx5::Be64 doorbell = mlx5::ToBe64(uint64_t{request} << 32 | cqn_);
  Cpu::StoreReleaseMmio(doorbell_, doorbell, mapping_);  // after the record
}

void CompletionAlarm::OnAnnounced() {
  ++sequence_;
  armed_ = false;
}

}  // namespace warpverbs::inline v0_2::host
