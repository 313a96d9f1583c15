#pragma once

namespace softhca {

/// A network's state for one queue pair: messages in flight, packets expected. Destroyed when the queue pair
/// is reset.
class Channel {
 public:
  Channel() = default;
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
};

}  // namespace softhca
