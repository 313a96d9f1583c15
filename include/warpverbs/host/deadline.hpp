#pragma once

#include <chrono>

namespace warpverbs::host {

/// When a call gives up.
using Deadline = std::chrono::steady_clock::time_point;

/// A time from now. What is longer than the clock can tell is for ever, not long ago.
inline Deadline DeadlineIn(std::chrono::nanoseconds time) {
  const Deadline now = std::chrono::steady_clock::now();
  return time < Deadline::max() - now ? now + time : Deadline::max();
}

}  // namespace warpverbs::host
