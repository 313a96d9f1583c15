#include "warpverbs/host/event_thread.hpp"

#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "device/handle.hpp"
#include "device/owner_process.hpp"
#include "events/event.hpp"
#include "events/event_watch.hpp"
#include "log/log.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using arch::Cpu;
using std::chrono::milliseconds;

FileDescriptor MakeWakeUp() {
  FileDescriptor file(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!file) {
    throw Error::FromErrno("start", "an event thread", errno, "Raise the limit on open files (ulimit -n)");
  }
  return file;
}

/// Makes reads of a file non-blocking. Returns the previous flags.
int MakeNonBlocking(int fd, const std::string& device) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    throw Error::FromErrno("listen to", "the events of " + device, errno, "Open the device again");
  }
  return flags;
}

/// Bounds the grace, so that it can be added to any time.
EventConfig Checked(EventConfig config) {
  constexpr milliseconds kLongest = std::chrono::hours(24 * 365);
  if (config.port_down_grace > kLongest) config.port_down_grace.reset();
  return config;
}

bool WouldBlock(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

LogLevel LevelOf(EventKind kind) {
  switch (kind) {
    case EventKind::kDeviceFailed:
    case EventKind::kQueueFailed:
    case EventKind::kCompletionsFailed:
      return LogLevel::kError;
    case EventKind::kPortDown:
      return LogLevel::kWarn;
    case EventKind::kPortUp:
    case EventKind::kPortChanged:
    case EventKind::kOther:
      break;
  }
  return LogLevel::kInfo;
}

void LogEvent(const Event& event) {
  Log(LevelOf(event.kind), [&] { return event.Describe(); });
}

}  // namespace

/// The thread's state, and the sources it listens to.
class EventThread::Impl {
 public:
  explicit Impl(const EventConfig& config);

  uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }
  void Add(EventWatch& watch);
  void Remove(EventWatch& watch);
  void Clear(EventWatch& watch) WARPVERBS_REQUIRES(mutex_);
  sync::Mutex& mutex() const WARPVERBS_RETURNS(mutex_) { return mutex_; }
  bool HasThread() const { return owner_.IsThisOne(); }

 private:
  struct Source;

  void Run(const std::stop_token& stop);
  void RunOnce(std::vector<pollfd>& files);
  void Wake() const;
  int ListFiles(std::vector<pollfd>& files) const WARPVERBS_REQUIRES(mutex_);
  Source& SourceOf(const Device& device) WARPVERBS_REQUIRES(mutex_);
  void Forget(EventWatch& watch) WARPVERBS_REQUIRES(mutex_);
  void Subscribe(Source& source, EventWatch& watch, EventSubject& subject) WARPVERBS_REQUIRES(mutex_);
  void TakeVerbsEvents(Source& source) WARPVERBS_REQUIRES(mutex_);
  void TakeFirmwareEvents(Source& source) WARPVERBS_REQUIRES(mutex_);
  void Deliver(const Source& source, const Event& event) WARPVERBS_REQUIRES(mutex_);
  void Deliver(EventWatch& watch, const Event& event) const WARPVERBS_REQUIRES(mutex_);
  void AbortDueWatches(EventWatch::Clock::time_point now) WARPVERBS_REQUIRES(mutex_);

  const OwnerProcess owner_;
  EventConfig config_;
  FileDescriptor wake_;
  std::atomic<uint64_t> wakeups_{0};
  mutable sync::Mutex mutex_;
  std::vector<std::unique_ptr<Source>> sources_ WARPVERBS_GUARDED_BY(mutex_);
  std::vector<EventWatch*> watches_ WARPVERBS_GUARDED_BY(mutex_);
  uint64_t last_id_ WARPVERBS_GUARDED_BY(mutex_) = 0;
  std::jthread thread_;  // the last member: it ends before the others do
};

/// A device with at least one watch.
struct EventThread::Impl::Source {
  explicit Source(const Device& listened)
      : device(listened),
        channel(
            mlx5dv_devx_create_event_channel(listened.context(), mlx5dv_devx_create_event_channel_flags{})),
        channel_error(channel ? 0 : errno) {
    if (channel) MakeNonBlocking(channel->fd, device.name());
    flags = MakeNonBlocking(device.context()->async_fd, device.name());  // last: the destructor undoes it
  }
  ~Source() { fcntl(device.context()->async_fd, F_SETFL, flags); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// A firmware event as the kernel delivers it: the subscription's cookie and the event queue entry.
  ///
  /// @source  rdma-core, kernel-headers/rdma/mlx5_user_ioctl_verbs.h; public PRM, "Event queue entry"
  struct FirmwareEntry {
    uint64_t cookie;
    uint8_t reserved0;
    uint8_t type;
    uint8_t reserved1[62];
  };
  static_assert(sizeof(FirmwareEntry) == 72);

  /// A subscription that several watches share. It has a cookie of its own.
  struct Shared {
    std::weak_ptr<const void> object;
    uint64_t id;
  };

  const Device& device;
  Handle<mlx5dv_devx_event_channel, mlx5dv_devx_destroy_event_channel> channel;
  int channel_error;
  int flags = 0;                                 // original flags of the async file
  bool verbs_end = false, firmware_end = false;  // no event will follow
  // Events read but not delivered yet. If memory runs out on the way, delivery is repeated.
  std::optional<ibv_async_event> verbs_event;
  std::optional<FirmwareEntry> firmware_event;
  std::vector<Shared> shared;
};

EventThread::Impl::Impl(const EventConfig& config) try
    : config_(Checked(config)),
      wake_(MakeWakeUp()),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {
} catch (const std::system_error& error) {
  throw Error::FromErrno("start", "an event thread", error.code().value(),
                         "Raise the limits on threads and memory (ulimit -u, ulimit -v)");
}

void EventThread::Impl::Wake() const {
  const uint64_t one = 1;
  // write() fails only if the counter is full, and then the thread is awake.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

void EventThread::Impl::Run(const std::stop_token& stop) {
  constexpr milliseconds kUntilThereIsMemory(1);
  const std::stop_callback wake(stop, [this] { Wake(); });
  std::vector<pollfd> files;
  while (!stop.stop_requested()) {
    try {
      RunOnce(files);
    } catch (const std::bad_alloc&) {  // the source keeps the event that was read
      Wake();
      std::this_thread::sleep_for(kUntilThereIsMemory);
    }
  }
}

void EventThread::Impl::RunOnce(std::vector<pollfd>& files) {
  int timeout_ms = 0;
  {
    const sync::LockGuard lock(mutex_);
    timeout_ms = ListFiles(files);
  }
  // A device may be removed meanwhile, and its number may name another file. Then Remove() has written to
  // wake_.
  poll(files.data(), files.size(), timeout_ms);
  wakeups_.fetch_add(1, std::memory_order_relaxed);
  const sync::LockGuard lock(mutex_);
  const auto now = EventWatch::Clock::now();  // before the events: a port that came back by now is seen
  for (const auto& source : sources_) {
    TakeVerbsEvents(*source);
    TakeFirmwareEvents(*source);
  }
  AbortDueWatches(now);
  // Last: if memory runs out above, the next round must not sleep.
  uint64_t calls = 0;
  [[maybe_unused]] const ssize_t taken = read(wake_.get(), &calls, sizeof calls);
}

/// @return  timeout for poll()
int EventThread::Impl::ListFiles(std::vector<pollfd>& files) const {
  files.assign(1, {.fd = wake_.get(), .events = POLLIN, .revents = 0});
  const auto add = [&](int fd) { files.push_back({.fd = fd, .events = POLLIN, .revents = 0}); };
  for (const auto& source : sources_) {
    if (!source->verbs_end) add(source->device.context()->async_fd);
    if (source->channel && !source->firmware_end) add(source->channel->fd);
  }
  std::optional<EventWatch::Clock::time_point> first;
  for (const EventWatch* const watch : watches_) {
    if (watch->port_down_) first = std::min(first.value_or(watch->abort_at_), watch->abort_at_);
  }
  if (!first) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*first - EventWatch::Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

void EventThread::Impl::TakeVerbsEvents(Source& source) {
  const std::string& name = source.device.name();
  while (!source.verbs_end) {
    if (!source.verbs_event) {
      ibv_async_event event{};
      if (ibv_get_async_event(source.device.context(), &event) == 0) {
        source.verbs_event = event;
        ibv_ack_async_event(&event);
      } else if (WouldBlock(errno)) {
        return;
      } else {
        Deliver(source, {.kind = EventKind::kDeviceFailed,
                         .device = name,
                         .name = std::string("its events cannot be read: ") + std::strerror(errno)});
        source.verbs_end = true;
        return;
      }
    }
    const int type = source.verbs_event->event_type;
    if (IsPortEvent(type) || type == IBV_EVENT_DEVICE_FATAL) {
      Deliver(source, VerbsEvent(name, type, static_cast<uint8_t>(source.verbs_event->element.port_num)));
    }
    source.verbs_event.reset();
  }
}

void EventThread::Impl::TakeFirmwareEvents(Source& source) {
  while (source.channel && !source.firmware_end) {
    if (!source.firmware_event) {
      Source::FirmwareEntry entry{};
      const ssize_t bytes = mlx5dv_devx_get_event(
          source.channel.get(), reinterpret_cast<mlx5dv_devx_async_event_hdr*>(&entry), sizeof entry);
      if (bytes < 0 && WouldBlock(errno)) return;
      if (bytes < 0 && errno == EOVERFLOW) {  // reported once: the kernel had no memory for an event
        Deliver(source, {.kind = EventKind::kOther,
                         .device = source.device.name(),
                         .name = "the kernel lost a firmware event"});
        continue;
      }
      if (bytes < 0) {
        source.firmware_end = true;
        return;
      }
      if (bytes != sizeof entry) continue;
      source.firmware_event = entry;
    }
    const Source::FirmwareEntry& entry = *source.firmware_event;
    const auto for_each = [&](const auto& use) WARPVERBS_REQUIRES(mutex_) {
      for (EventWatch* const watch : watches_) {
        const auto& ids = watch->ids_;
        if (std::find(ids.begin(), ids.end(), entry.cookie) == ids.end()) continue;
        use(*watch, FirmwareEvent(source.device.name(), watch->config_.qpn, entry.type));
      }
    };
    for_each([this](EventWatch& watch, const Event& event)
                 WARPVERBS_REQUIRES(mutex_) { Deliver(watch, event); });
    for_each([](EventWatch&, const Event& event) {
      LogEvent(event);
    });  // last: stderr may block, and kernels must not wait for it
    source.firmware_event.reset();
  }
}

/// Delivers an event to every watch that it concerns.
void EventThread::Impl::Deliver(const Source& source, const Event& event) {
  for (EventWatch* const watch : watches_) {
    const bool is_its_port = event.port == 0 || event.port == watch->config_.port;
    if (&source.device == watch->config_.device && is_its_port) Deliver(*watch, event);
  }
  LogEvent(event);  // last: if memory runs out before, delivery is repeated
}

void EventThread::Impl::Deliver(EventWatch& watch, const Event& event) const {
  watch.newest_ = event;
  switch (event.kind) {
    case EventKind::kPortDown:
      if (!config_.port_down_grace || watch.cause_) return;
      watch.abort_at_ = EventWatch::Clock::now() + *config_.port_down_grace;
      watch.port_down_ = event;
      return;
    case EventKind::kPortUp:
      watch.port_down_.reset();
      return;
    case EventKind::kDeviceFailed:
    case EventKind::kQueueFailed:
    case EventKind::kCompletionsFailed:
      return watch.Abort(event);
    case EventKind::kPortChanged:
    case EventKind::kOther:
      return;
  }
}

void EventThread::Impl::AbortDueWatches(EventWatch::Clock::time_point now) {
  for (EventWatch* const watch : watches_) {
    if (watch->port_down_ && watch->abort_at_ <= now) watch->Abort(Event(*watch->port_down_));
  }
}

EventThread::Impl::Source& EventThread::Impl::SourceOf(const Device& device) {
  const auto found = std::find_if(sources_.begin(), sources_.end(),
                                  [&](const auto& source) { return &source->device == &device; });
  if (found != sources_.end()) return **found;
  auto source = std::make_unique<Source>(device);
  for (ibv_async_event event{}; ibv_get_async_event(device.context(), &event) == 0;)
    ibv_ack_async_event(&event);  // earlier events do not concern the new watch
  sources_.push_back(std::move(source));
  return *sources_.back();
}

void EventThread::Impl::Add(EventWatch& watch) {
  if (!HasThread()) {
    throw Error("listen to", "the events of " + watch.config_.device->name(),
                "this process was forked from the one that started the thread",
                "Start an EventThread in the process that opens the device");
  }
  const sync::LockGuard lock(mutex_);
  try {
    watches_.push_back(&watch);
    Source& source = SourceOf(*watch.config_.device);
    if (source.channel) {
      watch.note_ = "with firmware events of its queues";
      watch.ids_.push_back(++last_id_);
      for (EventSubject& subject : watch.config_.subjects) Subscribe(source, watch, subject);
    } else {
      watch.note_ = std::string("without firmware events: ") + std::strerror(source.channel_error);
    }
  } catch (...) {
    Forget(watch);
    throw;
  }
  Wake();
}

/// Subscribes once to an object that several watches name. The kernel drops a subscription only with its
/// object or the channel, so each watch would add one more.
void EventThread::Impl::Subscribe(Source& source, EventWatch& watch, EventSubject& subject) {
  uint64_t id = watch.ids_.front();
  if (subject.shared) {
    std::erase_if(source.shared, [](const Source::Shared& one) { return one.object.expired(); });
    const auto known = std::find_if(source.shared.begin(), source.shared.end(),
                                    [&](const auto& one) { return one.object.lock() == subject.shared; });
    watch.ids_.push_back(known != source.shared.end() ? known->id : ++last_id_);
    if (known != source.shared.end()) return;
    id = watch.ids_.back();
    source.shared.push_back({subject.shared, id});
  }
  const int error = mlx5dv_devx_subscribe_devx_event(
      source.channel.get(), subject.object, static_cast<uint16_t>(subject.types.size() * sizeof(uint16_t)),
      subject.types.data(), id);
  if (error == 0) return;
  if (subject.shared) source.shared.pop_back();  // the next watch tries again
  watch.note_ = std::string("firmware events are refused: ") + std::strerror(error);
}

/// Removes the watch, and its device if this was the last watch of it.
void EventThread::Impl::Forget(EventWatch& watch) {
  std::erase(watches_, &watch);
  std::erase_if(sources_, [&](const auto& source) WARPVERBS_REQUIRES(mutex_) {
    return std::none_of(watches_.begin(), watches_.end(),
                        [&](const EventWatch* one) { return one->config_.device == &source->device; });
  });
}

void EventThread::Impl::Remove(EventWatch& watch) {
  if (!HasThread()) return;  // the files of the sources are the parent's, too
  const sync::LockGuard lock(mutex_);
  Forget(watch);
  Wake();
}

/// Takes the events that the thread has not read yet: they are also from before.
void EventThread::Impl::Clear(EventWatch& watch) {
  const auto source = std::find_if(sources_.begin(), sources_.end(),
                                   [&](const auto& one) { return &one->device == watch.config_.device; });
  try {
    TakeVerbsEvents(**source);
    TakeFirmwareEvents(**source);
  } catch (...) {
    Wake();  // it resumes at the failed event
    throw;
  }
}

EventThread::EventThread(const EventConfig& config) : impl_(std::make_unique<Impl>(config)) {}
EventThread::~EventThread() {
  if (!impl_->HasThread()) static_cast<void>(impl_.release());
}
uint64_t EventThread::wakeups() const { return impl_->wakeups(); }

EventWatch::EventWatch(EventThread& thread, WatchConfig config)
    : thread_(*thread.impl_), config_(std::move(config)) {
  thread_.Add(*this);
}

EventWatch::~EventWatch() { thread_.Remove(*this); }

void EventWatch::Abort(const Event& cause) {
  port_down_.reset();
  if (cause_) return;
  cause_ = cause;
  if (config_.on_abort) config_.on_abort();
  if (config_.abort != nullptr) Cpu::StoreRelease(config_.abort, uint64_t{1});
}

void EventWatch::Clear() {
  if (!thread_.HasThread()) return;
  const sync::LockGuard lock(thread_.mutex());
  thread_.Clear(*this);
  newest_.reset();
  port_down_.reset();
  std::optional<Event> cause = std::exchange(cause_, std::nullopt);
  if (config_.abort != nullptr) Cpu::Store(config_.abort, 0);
  if (config_.on_clear) config_.on_clear();
  if (cause && cause->kind == EventKind::kCompletionsFailed) Abort(*cause);
}

std::optional<Event> EventWatch::Newest() const {
  if (!thread_.HasThread()) return std::nullopt;
  const sync::LockGuard lock(thread_.mutex());
  return newest_;
}

std::optional<Event> EventWatch::Cause() const {
  if (!thread_.HasThread()) return std::nullopt;
  const sync::LockGuard lock(thread_.mutex());
  return cause_;
}

}  // namespace warpverbs::inline v0_2::host
