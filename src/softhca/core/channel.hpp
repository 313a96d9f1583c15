#pragma once

namespace softhca {

/// What a network keeps of a queue pair: messages under way, packets expected. Gone when the queue pair is
/// reset.
class Channel {
 public:
  Channel() = default;
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
};

}  // namespace softhca
