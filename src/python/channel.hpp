#pragma once

#include <mutex>
#include <utility>

#include "endpoint.hpp"
#include "warpverbs/host/completion_channel.hpp"

namespace warpverbs::python {

/// A channel, the device that it needs, and a mutex for its calls.
struct ChannelObject {
  explicit ChannelObject(std::shared_ptr<const host::Device> nic)
      : device(std::move(nic)), channel(*device) {}

  std::shared_ptr<const host::Device> device;
  host::CompletionChannel channel;
  std::mutex mutex;
};

/// What warpverbs.CompletionChannel is made of.
class CompletionChannel : public Handle<ChannelObject> {
 public:
  explicit CompletionChannel(const Device& device);
};

}  // namespace warpverbs::python
