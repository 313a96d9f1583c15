#pragma once

#include <chrono>
#include <string>

#include "warpverbs/host/exchange.hpp"

namespace warpverbs::host {

/// How long a call may wait, from where this is made: for the deadline and for the sentence about it.
class Waiting {
 public:
  explicit Waiting(Deadline deadline) : start_(std::chrono::steady_clock::now()), deadline_(deadline) {}

  Deadline deadline() const { return deadline_; }
  bool over() const { return std::chrono::steady_clock::now() >= deadline_; }

  /// As poll() takes it: rounded up, 0 once it is over.
  int Milliseconds() const;

  /// "within 2.5 s".
  std::string Within() const;

  /// Waits for events of a file, whatever signals come.
  ///
  /// @param events  as poll() takes them
  /// @return  false: the deadline passed
  /// @errors  Error: the kernel cannot wait
  bool ForEvents(int fd, short events) const;

 private:
  Deadline start_, deadline_;
};

}  // namespace warpverbs::host
