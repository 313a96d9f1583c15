#pragma once

#include <cstdint>

namespace warpverbs::inline v0_2::host {

/// Remembers the process that made an object with a thread. A forked child has a copy of the object, but not
/// the thread: nothing answers there, and locks stay as the thread had left them. So in another process the
/// object's destructor leaves everything as it is, without a wait.
class OwnerProcess {
 public:
  OwnerProcess() : generation_(Generation()) {}

  bool IsThisOne() const { return generation_ == Generation(); }

 private:
  /// Returns how many forks lead to this process. Makes no system call.
  static uint32_t Generation();

  uint32_t generation_;
};

}  // namespace warpverbs::inline v0_2::host
