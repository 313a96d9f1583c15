#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace softhca::uverbs {

class EventPipe;

/// A subscription to firmware events of an object.
struct DevxSubscription {
  std::weak_ptr<EventPipe> pipe;
  uint64_t cookie;
  std::vector<uint16_t> types;
};

/// All subscriptions of an object. A program closes a channel without unsubscribing, so Add() removes the
/// subscriptions of closed channels: an object that outlives many channels keeps only a few.
class DevxSubscriptions {
 public:
  void Add(DevxSubscription subscription) {
    std::erase_if(all_, [](const DevxSubscription& one) { return one.pipe.expired(); });
    all_.push_back(std::move(subscription));
  }

  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  size_t size() const { return all_.size(); }

 private:
  std::vector<DevxSubscription> all_;
};

}  // namespace softhca::uverbs
