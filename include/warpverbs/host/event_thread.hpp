#pragma once

#include <infiniband/mlx5dv.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/event.hpp"
#include "warpverbs/host/file_descriptor.hpp"

struct pollfd;

namespace warpverbs::host {

struct EventConfig {
  /// How long a port may be without link before who waits is aborted. Empty: for ever.
  ///
  /// A second by default: a flap as short costs the default RetryConfig one of its seven retries, a longer
  /// one is seldom a flap, and who only waits for the peer's data would wait to the deadline for nothing.
  std::optional<std::chrono::milliseconds> port_down_grace = std::chrono::seconds(1);
};

/// A firmware object whose events are wanted.
struct EventSubject {
  mlx5dv_devx_obj* object = nullptr;
  std::vector<uint16_t> types{};
  /// Lives as long as the object, which several watches name, with the same types. Empty: one watch does.
  std::shared_ptr<const void> shared{};
};

/// Whom events concern.
struct WatchConfig {
  const Device* device = nullptr;  ///< must outlive the watch
  uint8_t port = 0;
  uint32_t qpn = 0;                      ///< for the text
  uint64_t* abort = nullptr;             ///< set to 1 by an event that ends waits
  std::vector<EventSubject> subjects{};  ///< must outlive the watch
  std::function<void()> on_abort{};      ///< called with it, by any thread; must not call the watch
  std::function<void()> on_clear{};      ///< called by Clear(); as on_abort
};

/// A host thread that listens to the events of any number of devices: those of the verbs and, for the queues
/// of each endpoint, those of the firmware.
///
/// It sleeps until there is one. While it listens to a device, nobody else may take that device's
/// asynchronous events: the thread drops those of verbs objects, which are not warpverbs'.
class EventThread {
 public:
  /// @errors  Error: the system has no thread or file left
  explicit EventThread(const EventConfig& config = {});
  /// @pre  nothing is watched any more
  ~EventThread();
  EventThread(const EventThread&) = delete;
  EventThread& operator=(const EventThread&) = delete;

  /// How often the thread has woken up: it does for events, new watches and the end of a grace.
  uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }

  /// Looks out for one endpoint while this lives. May come and go in any thread while others are watched.
  class Watch {
   public:
    /// @param thread  must outlive this
    /// @errors  Error: the device's events cannot be read. A device without events of the firmware is none:
    ///          see note()
    Watch(EventThread& thread, WatchConfig config);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    /// Forgets all events that have come until now, read or not, and clears the abort word. A completion
    /// queue that has failed stays so: then it is set again.
    ///
    /// @errors  std::bad_alloc: nothing is cleared
    void Clear();

    // Any thread may ask. Since the last Clear():
    std::optional<Event> Newest() const;
    std::optional<Event> Cause() const;  ///< of the abort

    /// Says in words whether the firmware tells of the queues.
    const std::string& note() const { return note_; }

   private:
    friend class EventThread;
    using Clock = std::chrono::steady_clock;

    void Abort(const Event& cause);

    EventThread& thread_;
    WatchConfig config_;
    std::string note_;
    // Under the thread's mutex_:
    std::vector<uint64_t> ids_;  // of its subscriptions
    std::optional<Event> newest_, cause_;
    std::optional<Event> port_down_;  // while the grace lasts
    Clock::time_point abort_at_{};    // with it
  };

 private:
  struct Source;

  void Run(const std::stop_token& stop);
  void RunOnce(std::vector<pollfd>& files);
  void Wake() const;
  int ListFiles(std::vector<pollfd>& files) const;
  Source& SourceOf(const Device& device);
  void Add(Watch& watch);
  void Remove(Watch& watch);
  void Forget(Watch& watch);
  void Subscribe(Source& source, Watch& watch, EventSubject& subject);
  void TakeVerbsEvents(Source& source);
  void TakeFirmwareEvents(Source& source);
  void Deliver(const Source& source, const Event& event);
  void Deliver(Watch& watch, const Event& event) const;
  void AbortWhatIsDue();

  EventConfig config_;
  FileDescriptor wake_;
  std::atomic<uint64_t> wakeups_{0};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Source>> sources_;  // under mutex_, as the rest
  std::vector<Watch*> watches_;
  uint64_t last_id_ = 0;
  std::jthread thread_;  // the last member: it ends before the others do
};

}  // namespace warpverbs::host
