#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/hca.hpp"
#include "core/network.hpp"

namespace softhca {

/// The thread that is the hardware: it hears doorbells, executes work queue entries and writes completions.
///
/// The devices are there for the engine's whole life; their objects come and go under its lock.
class Engine {
 public:
  Engine(std::vector<std::unique_ptr<Hca>> devices, std::unique_ptr<Network> network);
  ~Engine();

  /// Ends the thread for good; commands still work, but nothing is executed any more.
  void Stop();

  /// Holds the hardware still while a command changes or reads its objects.
  [[nodiscard]] std::unique_lock<std::mutex> Pause();
  /// The same, but gives up after `limit`: the lock may not own. For callers that may have interrupted a
  /// command.
  [[nodiscard]] std::unique_lock<std::mutex> PauseFor(std::chrono::milliseconds limit);

  const std::vector<std::unique_ptr<Hca>>& devices() const { return devices_; }

 private:
  void Run();
  void Drain();
  bool RunOnce(uint64_t now_ns);

  std::unique_ptr<Network> network_;  // outlives the queue pairs, whose channels send by it
  std::vector<std::unique_ptr<Hca>> devices_;
  std::mutex mutex_;
  std::atomic<int> pausing_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace softhca
