#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace softhca {

/// Takes a frame that has arrived; it lies there for the call only.
using FrameSink = std::function<void(std::span<const uint8_t> frame)>;

/// Carries whole Ethernet frames, ICRC included, to where their headers say. May lose them.
class Medium {
 public:
  virtual ~Medium() = default;

  /// Takes a copy of a frame, to be handed over by Flush() or earlier.
  virtual void Send(std::span<const uint8_t> frame) = 0;
  virtual void Flush() = 0;

  /// Gives what has arrived to `sink`, at most `most` frames of each source that there is; never blocks.
  ///
  /// @return  how many
  virtual size_t Receive(size_t most, const FrameSink& sink) = 0;

  /// Adds the descriptors that become readable when a frame has arrived.
  virtual void AddDescriptors(std::vector<int>& descriptors) const = 0;

  /// Whether frames wait until their receiver has room for them.
  virtual bool HasUnsent() const { return false; }

  /// When Receive() or Flush() has something to do of itself, whatever arrives; UINT64_MAX: never.
  virtual uint64_t NextNs() const { return UINT64_MAX; }
};

}  // namespace softhca
