#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "core/config.hpp"

namespace softhca {

/// Receives a frame that has arrived; the span is valid during the call only.
using FrameSink = std::function<void(std::span<const uint8_t> frame)>;

/// Receives the reason for which a medium has lost frames: a few words, the same for every frame that is lost
/// for that reason.
using LossSink = std::function<void(const char* reason, uint64_t frames)>;

/// Carries whole Ethernet frames, ICRC included, to their destination. May lose frames; reports those that
/// it loses knowingly.
class Medium {
 public:
  virtual ~Medium() = default;

  /// Copies a frame, and sends it at the latest on the next Flush().
  virtual void Send(std::span<const uint8_t> frame) = 0;
  virtual void Flush() = 0;

  /// Passes arrived frames to `sink`, at most `most` from each source; never blocks.
  ///
  /// @return  the number of frames
  virtual size_t Receive(size_t most, const FrameSink& sink) = 0;

  /// Receives the frames that others send to these multicast groups, and to no other group, from now on. The
  /// descriptors may change.
  ///
  /// @errors  CommandError: a socket for a new group is not available
  virtual void SetGroups(const std::set<Gid>& /*groups*/) {}

  /// Adds the file descriptors that become readable when a frame arrives.
  virtual void AddDescriptors(std::vector<int>& descriptors) const = 0;

  /// Returns whether frames wait for space at their receiver.
  virtual bool HasUnsent() const { return false; }
  /// Returns whether frames to an Ethernet address wait for space at their receiver.
  virtual bool HasUnsentTo(const Mac& /*destination*/) const { return false; }

  /// Returns when Receive() or Flush() is due even if nothing arrives; UINT64_MAX: never.
  virtual uint64_t NextNs() const { return UINT64_MAX; }

  /// Reports the frames that this medium loses from now on, and those that media inside it lose.
  virtual void ReportLosses(const LossSink& sink) { losses_ = sink; }

 protected:
  void Lose(const char* reason, uint64_t frames = 1) const {
    if (losses_) losses_(reason, frames);
  }

 private:
  LossSink losses_{};
};

}  // namespace softhca
