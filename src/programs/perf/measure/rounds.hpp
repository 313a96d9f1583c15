#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "perf/options/options.hpp"
#include "perf/talk/talk.hpp"

namespace warpverbs::perf {

/// How long a round of a measurement by duration shall take: the last one begins within the time, and is not
/// to last long beyond it.
///
/// @param duration_s  of the whole measurement
double SecondsOfARound(double duration_s);
/// Messages of a round at most.
inline constexpr uint32_t kMostOfARound = uint32_t{1} << 30;

/// Lets both sides do the same rounds: the client says how many messages come next.
class Rounds {
 public:
  /// @param granule  messages that a round has a multiple of
  /// @param most     at once, of the client's rounds but for what warms up; 0: as many as there are
  /// @param room     more of a round have no place here: a peer that asks for them is refused
  Rounds(Talk& talk, const Options& options, uint32_t granule, uint32_t most, uint32_t room = kMostOfARound)
      : talk_(talk), options_(options), granule_(granule), most_(most), room_(room) {}

  /// Runs `round(count, counts)` until the iterations or the duration are over; before them, what warms up.
  ///
  /// @param round  measures so many messages of each queue pair; `counts`: for the result, neither for a
  ///               margin nor to warm up
  /// @errors  std::runtime_error: the other side asks for more than there is room for, or in other words
  void Run(const std::function<void(uint32_t count, bool counts)>& round);

 private:
  using Clock = std::chrono::steady_clock;

  /// As many as the queue holds: of the client's, which the other side need not know.
  void RunWarmUp(const std::function<void(uint32_t, bool)>& round);
  void RunIterations(const std::function<void(uint32_t, bool)>& round);
  void RunDuration(const std::function<void(uint32_t, bool)>& round);
  /// Tells the other side; 0: no more.
  void Announce(uint32_t count, bool counts);
  uint32_t Whole(uint64_t count) const;

  Talk& talk_;
  const Options& options_;
  uint32_t granule_, most_, room_;
};

}  // namespace warpverbs::perf
