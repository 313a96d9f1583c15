#pragma once

#include <cstdint>

#include "core/network.hpp"

namespace softhca {

/// Longest sleep of an engine that has nothing to do.
inline constexpr uint64_t kLongestSleepNs = 4'000'000;

uint64_t NowNs();

/// Makes the calling thread wake punctually and run at once after a sleep, as far as the system allows.
void PreferLatency();

/// Decides how the engine waits while it has nothing to do: it spins at first, then yields, then sleeps
/// longer and longer. Latency is low while there is traffic, and load is negligible while there is none.
///
/// Programs spin on completions. If programs and engines outnumber the processors, a thread that yields runs
/// again only at the next scheduler tick, milliseconds later; a thread that sleeps runs as soon as it wakes.
/// So an engine that frames can wake always sleeps. An engine that they cannot wake yields only as long as it
/// gets the processor back at once.
class Pacing {
 public:
  void OnWork(uint64_t now_ns) { last_work_ns_ = now_ns; }

  /// @param next_ns  when the next timer is due
  void Wait(uint64_t now_ns, uint64_t next_ns, Network& network);

 private:
  void Yield(uint64_t now_ns);

  uint64_t last_work_ns_ = NowNs();
  uint64_t yield_from_ns_ = 0;
  uint64_t yield_pause_ns_ = 0;
  bool preferred_ = false;
};

}  // namespace softhca
