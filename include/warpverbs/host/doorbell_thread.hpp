#pragma once

#include <memory>
#include <string>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

class Device;
class Gpu;

/// A host thread that rings the doorbells of any number of endpoints: see EndpointConfig::doorbell_thread.
///
/// It answers within microseconds while doorbells come, and naps once none has come for a while: the first
/// doorbell after that may wait for four milliseconds.
///
/// A forked child has a copy without the thread. It may destroy the copy and the endpoints that name it, and
/// nothing else.
class WARPVERBS_EXPORT DoorbellThread {
 public:
  /// @errors  Error: the system has no thread left
  DoorbellThread();
  /// @pre  the endpoints that name it are destroyed
  ~DoorbellThread();
  DoorbellThread(const DoorbellThread&) = delete;
  DoorbellThread& operator=(const DoorbellThread&) = delete;

 private:
  friend class DoorbellService;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether kernels of a GPU can ring a NIC's doorbells, and why.
struct DoorbellReach {
  bool mapped = false;
  std::string why;
};

/// Maps a doorbell register of a device for a GPU, as an endpoint would, and releases it.
///
/// @errors  Error: the device has no register left
WARPVERBS_EXPORT DoorbellReach ProbeDoorbell(const Device& device, const Gpu& gpu);

}  // namespace warpverbs::inline v0_2::host
