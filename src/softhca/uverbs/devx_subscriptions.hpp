#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace softhca::uverbs {

class EventPipe;

/// Who wants to know of an object's firmware events.
struct DevxSubscription {
  std::weak_ptr<EventPipe> pipe;
  uint64_t cookie;
  std::vector<uint16_t> types;
};

/// All who want to know of an object's. A program closes a channel and says no more, so who has gone is
/// forgotten when the next one comes: an object that outlives any number of channels keeps a few.
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
