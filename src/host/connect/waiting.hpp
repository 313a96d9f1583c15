#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "warpverbs/host/deadline.hpp"

namespace warpverbs::host {

/// How long a call may wait, from where this is made: for the deadline and for the sentence about it.
class Waiting {
 public:
  explicit Waiting(Deadline deadline) : start_(std::chrono::steady_clock::now()), deadline_(deadline) {}

  Deadline deadline() const { return deadline_; }
  bool over() const { return std::chrono::steady_clock::now() >= deadline_; }

  /// When to give up one of several tries, so that there is time for those to come: an even part of what is
  /// left, at most 2 s; for the last one all.
  ///
  /// @param to_come  how many tries there are after this one
  Deadline Share(size_t to_come) const;

  /// As poll() takes it: rounded up, 0 once it is over.
  int Milliseconds() const;

  /// "within 2.5 s".
  std::string Within() const;

  /// Waits for events of a file, whatever signals come.
  ///
  /// @return  as poll(): 0: the deadline passed; less: errno says why the kernel cannot wait
  int Poll(int fd, short events) const;

  /// As Poll(), for who has nothing to say of a failure.
  ///
  /// @param events  as poll() takes them
  /// @return  false: the deadline passed
  /// @errors  Error: the kernel cannot wait
  bool ForEvents(int fd, short events) const;

  /// Waits for what can only be looked at: asleep between the looks, 10 us at first and 1 ms in the end.
  ///
  /// @return  false: the deadline passed, and it was not done then either
  bool Until(const std::function<bool()>& done) const;

 private:
  Deadline start_, deadline_;
};

}  // namespace warpverbs::host
