#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/hca.hpp"
#include "core/network.hpp"
#include "sync/mutex.hpp"

namespace softhca {

namespace sync = warpverbs::sync;

/// The thread that plays the hardware: it polls doorbells, executes work queue entries and writes
/// completions.
///
/// The devices live as long as the engine; their objects are created and destroyed under its lock.
class Engine {
 public:
  Engine(std::vector<std::unique_ptr<Hca>> devices, std::unique_ptr<Network> network);
  ~Engine();

  /// Ends the thread. Commands still work afterwards, but nothing is executed any more.
  void Stop();

  /// Pauses the hardware while a command reads or changes its objects.
  [[nodiscard]] sync::UniqueLock Pause() WARPVERBS_ACQUIRE(mutex_);
  /// Does the same, but gives up after `limit`; the lock then owns nothing. For callers that may have
  /// interrupted a command, such as signal handlers.
  [[nodiscard]] sync::UniqueLock PauseFor(std::chrono::milliseconds limit);

  const std::vector<std::unique_ptr<Hca>>& devices() const { return devices_; }

 private:
  void Run();
  void Drain();
  bool RunOnce(uint64_t now_ns) WARPVERBS_REQUIRES(mutex_);

  std::unique_ptr<Network> network_;  // declared first: the queue pairs' channels use it
  std::vector<std::unique_ptr<Hca>> devices_;
  sync::Mutex mutex_;
  bool rung_ WARPVERBS_GUARDED_BY(mutex_) = false;  ///< a send doorbell was read since the last pass
  std::atomic<int> pausing_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace softhca
