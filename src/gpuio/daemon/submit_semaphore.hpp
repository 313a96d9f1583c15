#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "gpuio/daemon/guarded_mapping.hpp"
#include "gpuio/ring/shared_semaphore.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A semaphore that applications post when they submit, and the thread that waits for it.
///
/// The applications share its memory, so it may have any value: the thread then polls.
class SubmitSemaphore {
 public:
  /// @param wake  called on the thread after posts, and now and then without
  /// @errors  host::Error
  explicit SubmitSemaphore(std::function<void()> wake);
  ~SubmitSemaphore();
  SubmitSemaphore(const SubmitSemaphore&) = delete;
  SubmitSemaphore& operator=(const SubmitSemaphore&) = delete;

  /// Returns the path of its memory.
  std::string path() const { return "/dev/shm/sem." + name_; }

 private:
  void Run();
  SharedSemaphore semaphore() const;

  std::function<void()> wake_;
  std::string name_;
  std::unique_ptr<GuardedMapping> memory_;
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace warpverbs::inline v0_2::gpuio
