#pragma once

namespace warpverbs::perf {

/// While one lives, the system has no thread left for this one. Link thread_calls.cpp.
struct NoThreadsLeft {
  NoThreadsLeft();
  ~NoThreadsLeft();
  NoThreadsLeft(const NoThreadsLeft&) = delete;
  NoThreadsLeft& operator=(const NoThreadsLeft&) = delete;
};

}  // namespace warpverbs::perf
