#pragma once

#include <cstdint>
#include <string>
#include <thread>

namespace warpverbs::perf {

/// Shows on a terminal what is being measured and for how long so far, every second. Shows nothing in a file.
class Progress {
 public:
  /// @param duration_s  duration of the measurement; 0: unknown
  Progress(uint64_t bytes, const std::string& initiator, double duration_s);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace warpverbs::perf
