#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "perf/control/control_channel.hpp"
#include "perf/options/options.hpp"

namespace warpverbs::perf {

/// Returns the target length of a round of a measurement with -D. The last round begins within the duration
/// and should not exceed it by much.
///
/// @param duration_s  duration of the whole measurement
double RoundSeconds(double duration_s);
/// Maximum of messages per round and queue pair.
inline constexpr uint32_t kMaxRoundMessages = uint32_t{1} << 30;

/// Runs the same rounds on both sides: the client announces the messages of each round.
class Rounds {
 public:
  /// @param multiple  the messages of a round are a multiple of this
  /// @param max       maximum for rounds of this side as client, except for the warm-up; 0: no limit
  /// @param room      maximum for rounds of a client; larger ones are refused
  Rounds(ControlChannel& control, const Options& options, uint32_t multiple, uint32_t max,
         uint32_t room = kMaxRoundMessages)
      : control_(control), options_(options), multiple_(multiple), max_(max), room_(room) {}

  /// Runs `round(count, counts)` until the iterations or the duration are over, after the warm-up.
  ///
  /// @param round  measures `count` messages per queue pair; `counts` is false for margins and the warm-up
  /// @errors  std::runtime_error: the peer asks for more messages than fit, or sends an invalid message
  void Run(const std::function<void(uint32_t count, bool counts)>& round);

 private:
  using Clock = std::chrono::steady_clock;

  /// Runs a round that fills the client's queue.
  void RunWarmUp(const std::function<void(uint32_t, bool)>& round);
  void RunIterations(const std::function<void(uint32_t, bool)>& round);
  void RunDuration(const std::function<void(uint32_t, bool)>& round);
  /// Tells the peer the messages of the next round; 0: the end.
  void Announce(uint32_t count, bool counts);
  /// Rounds up to a multiple, within the limit of a round.
  uint32_t RoundUp(uint64_t count) const;

  ControlChannel& control_;
  const Options& options_;
  uint32_t multiple_, max_, room_;
};

}  // namespace warpverbs::perf
