#pragma once

#include <cstdint>
#include <string>
#include <thread>

namespace warpverbs::perf {

/// Says on a terminal what is measured and for how long so far, every second while this lives; elsewhere
/// nothing.
class Progress {
 public:
  /// @param duration_s  of the whole measurement; 0: it goes by number of messages
  Progress(uint64_t bytes, const std::string& initiator, double duration_s);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  std::jthread teller_;
};

}  // namespace warpverbs::perf
