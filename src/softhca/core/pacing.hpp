#pragma once

#include <cstdint>

#include "core/network.hpp"

namespace softhca {

uint64_t NowNs();

/// Lets the calling thread, once it sleeps, be woken punctually and run at once, as far as the system allows.
void PreferLatency();

/// How the engine waits while there is nothing to do: not at all at first, then by giving way, then by ever
/// longer sleeps. There is latency while there is traffic, and no load to speak of when there is none.
///
/// Programs spin on completions. Where they and the engines have fewer processors than they are, who gives
/// way is not asked again before the next tick, milliseconds later, but who sleeps gets the processor when he
/// wakes. So a thread that may be woken by frames always sleeps, and one that may not gives way only as long
/// as it gets the processor back in no time.
class Pacing {
 public:
  void OnWork(uint64_t now_ns) { last_work_ns_ = now_ns; }

  /// @param next_ns  when there is something to do, whatever happens
  void Wait(uint64_t now_ns, uint64_t next_ns, Network& network);

 private:
  void Yield(uint64_t now_ns);

  uint64_t last_work_ns_ = NowNs();
  uint64_t yield_from_ns_ = 0;
  uint64_t yield_pause_ns_ = 0;
  bool preferred_ = false;
};

}  // namespace softhca
