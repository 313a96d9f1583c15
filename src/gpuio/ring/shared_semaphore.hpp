#pragma once

#include <semaphore.h>

#include <chrono>
#include <cstdint>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A semaphore of glibc's layout in memory that the other side may damage.
///
/// Works together with sem_post() and sem_timedwait() of other processes. Those end the program when the
/// semaphore's words make no sense; this never does.
/// @source  glibc 2.36, sysdeps/nptl/internaltypes.h, struct new_sem; nptl/sem_waitcommon.c
class SharedSemaphore {
 public:
  /// @param semaphore  of sem_init() with pshared
  explicit SharedSemaphore(sem_t* semaphore) : semaphore_(semaphore) {}

  void Post() const;

  /// Takes all posts that are there.
  ///
  /// @return  number of posts
  uint32_t TakeAll() const;

  /// Waits for a post, and takes it, or for some time. May return earlier.
  ///
  /// @return  whether it has taken a post
  bool WaitFor(std::chrono::nanoseconds time) const;

 private:
  sem_t* semaphore_;
};

}  // namespace warpverbs::inline v0_2::gpuio
