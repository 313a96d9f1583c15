#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "warpverbs/host/queue_error.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// Settings of an EventThread.
struct WARPVERBS_EXPORT EventConfig {
  /// How long a port may be without link before the waits of its endpoints are aborted. Empty: forever.
  ///
  /// A second by default: so short a flap costs the default RetryConfig one of its seven retries. A longer
  /// loss is seldom a flap, and a kernel that only waits for the peer's data would wait to its deadline.
  std::optional<std::chrono::milliseconds> port_down_grace = std::chrono::seconds(1);
};

/// A host thread that listens to the events of any number of devices and of their endpoints: see
/// EndpointConfig::events.
///
/// It sleeps until an event comes. While it listens to a device, no other code may take that device's
/// asynchronous events: the thread drops those of verbs objects, which are not warpverbs'.
///
/// A forked child has a copy without the thread. It may destroy the copy and the endpoints that name it, and
/// nothing else.
class WARPVERBS_EXPORT EventThread {
 public:
  /// @errors  Error: the system has no thread or file left
  explicit EventThread(const EventConfig& config = {});
  /// @pre  the endpoints that name it are destroyed
  ~EventThread();
  EventThread(const EventThread&) = delete;
  EventThread& operator=(const EventThread&) = delete;

  /// How often the thread has woken up: for events, new endpoints and the end of a grace.
  uint64_t wakeups() const;

 private:
  friend class EventWatch;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warpverbs::inline v0_2::host
