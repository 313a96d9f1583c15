#pragma once

#include <infiniband/mlx5dv.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/event_thread.hpp"

namespace warpverbs::inline v0_2::host {

/// A firmware object whose events are watched.
struct EventSubject {
  mlx5dv_devx_obj* object = nullptr;
  std::vector<uint16_t> types{};
  /// Lives as long as the object, if several watches name it with the same types. Empty if only one does.
  std::shared_ptr<const void> shared{};
};

/// Which events concern an endpoint, and what they do.
struct WatchConfig {
  const Device* device = nullptr;  ///< must outlive the watch
  uint8_t port = 0;
  uint32_t qpn = 0;                      ///< for messages
  uint64_t* abort = nullptr;             ///< word that an event sets to 1 if it ends waits
  std::vector<EventSubject> subjects{};  ///< must outlive the watch
  std::function<void()> on_abort{};      ///< called then, by any thread; must not call the watch
  std::function<void()> on_clear{};      ///< called by Clear(); the same holds
};

/// Watches for one endpoint's events while it lives. May come and go in any thread while others are watched.
class EventWatch {
 public:
  /// @param thread  must outlive this
  /// @errors  Error: the device's events cannot be read. A device without firmware events is no error: see
  ///          note()
  EventWatch(EventThread& thread, WatchConfig config);
  ~EventWatch();
  EventWatch(const EventWatch&) = delete;
  EventWatch& operator=(const EventWatch&) = delete;

  /// Forgets all events that have come until now, read or not, and clears the abort word. A completion
  /// queue that has failed stays failed: then the word is set again. Does nothing in a forked child, which
  /// has no thread.
  ///
  /// @errors  std::bad_alloc: nothing is cleared
  void Clear();

  // Since the last Clear(); any thread may call these. Empty in a forked child.
  std::optional<Event> Newest() const;
  std::optional<Event> Cause() const;  ///< event that set the abort word

  /// Says whether the firmware reports events of the queues.
  const std::string& note() const { return note_; }

 private:
  friend class EventThread::Impl;
  using Clock = std::chrono::steady_clock;

  void Abort(const Event& cause);

  EventThread::Impl& thread_;
  WatchConfig config_;
  std::string note_;
  // Under the thread's mutex_:
  std::vector<uint64_t> ids_;  // cookies of its subscriptions
  std::optional<Event> newest_, cause_;
  std::optional<Event> port_down_;  // set while the grace lasts
  Clock::time_point abort_at_{};    // end of the grace
};

}  // namespace warpverbs::inline v0_2::host
