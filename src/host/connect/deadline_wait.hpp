#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "warpverbs/host/exchange.hpp"

namespace warpverbs::inline v0_2::host {

/// Calls the function of the thread's WaitCheck, if it has one that was not called in the last 50 ms.
void CallWaitCheck();

/// A time limit from its construction on, for the deadline and for the sentence about it.
class DeadlineWait {
 public:
  explicit DeadlineWait(Deadline deadline) : start_(std::chrono::steady_clock::now()), deadline_(deadline) {}

  Deadline deadline() const { return deadline_; }
  bool over() const { return std::chrono::steady_clock::now() >= deadline_; }

  /// Returns when to give up one of several tries: after an even share of the time left, at most 2 s. The
  /// last try gets all of it.
  ///
  /// @param to_come  number of tries after this one
  Deadline Share(size_t to_come) const;

  /// Returns the timeout for poll(): rounded up, 0 once the deadline has passed.
  int Milliseconds() const;

  /// "within 2.5 s".
  std::string Within() const;

  /// Waits for events of a file. Signals do not end the wait, but what a WaitCheck throws does.
  ///
  /// @return  result of poll(): 0 if the deadline passed, negative if the kernel cannot wait, with errno set
  int Poll(int fd, short events) const;

  /// Like Poll(), but throws on failure.
  ///
  /// @param events  events as for poll()
  /// @return  false if the deadline passed
  /// @errors  Error: the kernel cannot wait
  bool ForEvents(int fd, short events) const;

  /// Sleeps until a time, or the deadline if that is earlier.
  void SleepUntil(Deadline time) const;

  /// Polls a condition, sleeping between the checks: 10 us at first, 1 ms in the end.
  ///
  /// @return  false if the deadline passed before `done()`
  bool Until(const std::function<bool()>& done) const;

 private:
  Deadline start_, deadline_;
};

}  // namespace warpverbs::inline v0_2::host
