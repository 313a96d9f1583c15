#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "gpuio/api/arguments.hpp"
#include "gpuio/api/daemon_session.hpp"
#include "gpuio/api/files.hpp"
#include "gpuio/api/handle_table.hpp"
#include "gpuio/api/iov.hpp"
#include "gpuio/control/mount.hpp"
#include "gpuio/ring/producer.hpp"
#include "gpuio/ring/shared_semaphore.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

/// Finds the semaphore that tells the daemon of requests.
///
/// @return  0; EIO: the link is missing or points elsewhere
int FindSubmitSemaphore(const std::string& mount, int priority, std::string& name) {
  constexpr std::string_view kPrefix = "/dev/shm/sem.";
  std::string target;
  if (ReadLink(SubmitLinkOf(mount, priority), target) != 0 || !target.starts_with(kPrefix)) return EIO;
  name = target.substr(kPrefix.size());
  return name.empty() || name.find('/') != std::string::npos ? EIO : 0;
}

/// Returns the time between two looks at the ring while a thread waits.
std::chrono::milliseconds WaitJitter() {
  static const std::chrono::milliseconds jitter = [] {
    const char* const text = std::getenv("HF3FS_USRBIO_WAIT_JITTER_MS");
    const long value = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
    return std::chrono::milliseconds(value > 0 && value <= 60'000 ? value : 1);
  }();
  return jitter;
}

/// A ring behind an ior.
class Ring final : public DaemonSession::Member {
 public:
  Ring(std::shared_ptr<DaemonSession> session, std::shared_ptr<Iov> memory, const RingMemory& ring,
       int priority)
      : session_(std::move(session)), memory_(std::move(memory)), producer_(ring), priority_(priority) {}
  ~Ring() override {
    for (sem_t* const semaphore : submit_semaphores_) sem_close(semaphore);
  }

  RingProducer& producer() { return producer_; }
  DaemonSession& session() { return *session_; }

  /// Looks whether the daemon is still there, unless that was looked at a moment ago. The waiting thread's.
  void CheckDaemon() {
    const auto now = std::chrono::steady_clock::now();
    if (now - checked_ < WaitJitter()) return;
    checked_ = now;
    session_->CheckDaemon(*this);
  }

  void PostSubmit() { SharedSemaphore(submit_semaphore_.load(std::memory_order_acquire)).Post(); }

  int rank() const override { return 2; }
  void OnLost(bool is_back) override { producer_.Fail(EREMOTEIO, !is_back); }
  bool WasClosed() const override {
    return producer_.memory().is_closed().load(std::memory_order_acquire) != 0;
  }
  int Publish(const DaemonSession::Caller& call) override {
    // The application has removed the link: no daemon will serve the ring.
    if (memory_ != nullptr && !memory_->link->is_linked()) return ENOENT;
    int error = OpenSubmit();
    if (error == 0 && memory_ != nullptr) error = memory_->Publish(call);
    if (error == 0) PostSubmit();  // for what was prepared before
    return error;
  }
  std::string name() const override { return "a ring"; }

 private:
  /// Opens the semaphore of the present daemon.
  ///
  /// @return  0; EIO: it is missing or damaged
  int OpenSubmit() {
    std::string name;
    if (FindSubmitSemaphore(session_->mount(), priority_, name) != 0) return EIO;
    if (name == submit_name_) return 0;  // this daemon's already
    sem_t* const semaphore = sem_open(("/" + name).c_str(), 0);
    if (semaphore == SEM_FAILED) return EIO;
    submit_semaphores_.push_back(semaphore);  // the preparing thread may post the previous one at any time
    submit_semaphore_.store(semaphore, std::memory_order_release);
    submit_name_ = name;
    return 0;
  }

  const std::shared_ptr<DaemonSession> session_;
  const std::shared_ptr<Iov> memory_;  // null: wrapped
  RingProducer producer_;
  const int priority_;
  std::vector<sem_t*> submit_semaphores_;  // used by the session, under its mutex
  std::string submit_name_;                // of the last one; the session's, too
  std::atomic<sem_t*> submit_semaphore_{nullptr};
  std::chrono::steady_clock::time_point checked_{};  // last; the waiting thread's
};

HandleTable<Ring>& Rings() {
  static auto* const table = new HandleTable<Ring>;
  return *table;
}

int Sign(int number) { return number < 0 ? -1 : number > 0 ? 1 : 0; }

bool IsRingConfig(const RingConfig& config, int entries) {
  return RingBytes(entries) != 0 && config.io_depth <= entries && config.timeout_ms >= 0;
}

void DescribeRing(hf3fs_ior& out, const char* mount, const RingConfig& config, int priority,
                  std::shared_ptr<Ring> ring) {
  out.iorh = Rings().Add(std::move(ring));
  std::memset(out.mount_point, 0, sizeof out.mount_point);
  std::strncpy(out.mount_point, mount, sizeof out.mount_point - 1);
  out.for_read = config.for_read;
  out.io_depth = config.io_depth;
  out.priority = priority;
  out.timeout = config.timeout_ms;
  out.flags = config.flags;
}

/// @param priority  as the caller has it
/// @return          0 or an errno value
int CreateRing(hf3fs_ior& out, const char* mount, int entries, RingConfig config, int priority, int numa) {
  config.priority = Sign(priority);
  const LinkName name{.id = RandomId(), .ring = config};
  const size_t bytes = RingBytes(entries);
  std::shared_ptr<Iov> memory;
  int error = CreateHostIov(mount, name, bytes, numa, memory);
  if (error != 0) return error;
  const RingMemory ring_memory(memory->shm->data(), entries);
  if (sem_init(ring_memory.semaphore(), 1, 0) != 0) return EIO;
  auto ring = std::make_shared<Ring>(memory->session, memory, ring_memory, config.priority);
  error = PublishNew(*memory, ring);
  if (error != 0) return error;
  hf3fs_ior made{};
  Describe(made.iov, name.id, mount, memory->shm->data(), bytes, 0, numa, memory);
  DescribeRing(made, mount, config, priority, std::move(ring));
  out = made;
  return 0;
}

int WrapRing(hf3fs_ior& out, void* memory, const char* mount, size_t size, const RingConfig& config,
             int priority) {
  int error = 0;
  std::shared_ptr<DaemonSession> session = DaemonSession::Of(mount, error);
  if (error != 0) return error;
  const RingMemory ring_memory(static_cast<std::byte*>(memory), RingEntries(size));
  auto ring = std::make_shared<Ring>(session, nullptr, ring_memory, Sign(priority));
  if (error = session->Add(ring); error != 0) return error;
  hf3fs_ior made{};
  Describe(made.iov, {}, mount, memory, size, 0, -1, nullptr);
  DescribeRing(made, mount, config, priority, std::move(ring));
  out = made;
  return 0;
}

int Create(hf3fs_ior* ior, const char* mount, int entries, const RingConfig& config, int priority, int numa) {
  return GuardedErrno([&] {
    if (ior == nullptr || !IsMountArgument(mount) || !IsRingConfig(config, entries)) return -EINVAL;
    return -CreateRing(*ior, mount, entries, config, priority, numa);
  });
}

void DestroyRing(hf3fs_ior* ior) {
  if (ior == nullptr) return;
  const std::shared_ptr<Ring> ring = Rings().Find(ior->iorh);
  if (ring == nullptr) return;
  hf3fs_iovdestroy(&ior->iov);
  if (ior->iov.iovh != nullptr) return;  // its link could not be removed: the next call tries again
  if (!Rings().Remove(ior->iorh)) return;
  ring->session().Remove(ring.get());
  *ior = {};
}

int PrepareIo(const hf3fs_ior* ior, const hf3fs_iov* iov, bool read, const void* ptr, int fd, size_t off,
              uint64_t len, const void* userdata) {
  if (ior == nullptr || ior->iorh == nullptr || iov == nullptr || iov->base == nullptr || ptr == nullptr)
    return -EINVAL;
  if (read != ior->for_read || len == 0) return -EINVAL;
  const auto base = reinterpret_cast<uintptr_t>(iov->base), place = reinterpret_cast<uintptr_t>(ptr);
  if (place < base || place - base >= iov->size || len > iov->size - (place - base)) return -EINVAL;
  RegisteredFile file;
  if (const int error = FindRegistered(fd, file); error != 0) return -error;
  if (read ? !file.reads : !file.writes) return -EACCES;
  const std::shared_ptr<Ring> ring = Rings().Find(ior->iorh);
  if (ring == nullptr) return -EINVAL;
  return ring->producer().Prepare({.buffer = IdOf(iov->id),
                                   .buffer_offset = place - base,
                                   .file = file.inode,
                                   .file_offset = off,
                                   .bytes = len,
                                   .userdata = reinterpret_cast<uint64_t>(userdata)});
}

std::chrono::nanoseconds SinceEpoch(const timespec& time) {
  // What is beyond the clock is forever.
  constexpr int64_t kMaxSeconds = INT64_MAX / 1'000'000'000 - 1;
  return std::chrono::seconds(std::clamp<int64_t>(time.tv_sec, -kMaxSeconds, kMaxSeconds)) +
         std::chrono::nanoseconds(time.tv_nsec);
}

std::chrono::nanoseconds Now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return SinceEpoch(now);
}

int WaitForIos(Ring& ring, std::span<hf3fs_cqe> cqes, size_t min_results, const timespec* abs_timeout) {
  const SharedSemaphore arrivals(ring.producer().memory().semaphore());
  // Each completion has a post. Those of completions that are taken here would end later waits at once. A
  // completion that arrives after this posts again.
  arrivals.TakeAll();
  size_t taken = ring.producer().Take(cqes);
  while (taken < min_results) {
    const std::chrono::nanoseconds now = Now();
    std::chrono::nanoseconds left = WaitJitter();
    if (abs_timeout != nullptr) {
      const std::chrono::nanoseconds end = SinceEpoch(*abs_timeout);
      if (now >= end) break;
      left = std::min(left, end - now);
    }
    if (arrivals.WaitFor(left)) {
      arrivals.TakeAll();
    } else {
      ring.CheckDaemon();  // one that answers in time needs no look
    }
    taken += ring.producer().Take(cqes.subspan(taken));
  }
  if (taken == 0) {  // a thread that polls learns of a daemon that has gone, too
    ring.CheckDaemon();
    taken = ring.producer().Take(cqes);
  }
  if (taken > 0) ring.PostSubmit();  // there is room for completions again
  return static_cast<int>(taken);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio

using namespace warpverbs::gpuio;

extern "C" {

size_t hf3fs_ior_size(int entries) { return RingBytes(entries); }

int hf3fs_iorcreate(hf3fs_ior* ior, const char* mount, int entries, bool for_read, int io_depth, int numa) {
  return Create(ior, mount, entries, {.for_read = for_read, .io_depth = io_depth}, 0, numa);
}

int hf3fs_iorcreate2(hf3fs_ior* ior, const char* mount, int entries, bool for_read, int io_depth,
                     int priority, int numa) {
  return Create(ior, mount, entries, {.for_read = for_read, .io_depth = io_depth}, priority, numa);
}

int hf3fs_iorcreate3(hf3fs_ior* ior, const char* mount, int entries, bool for_read, int io_depth,
                     int priority, int timeout, int numa) {
  return Create(ior, mount, entries, {.for_read = for_read, .io_depth = io_depth, .timeout_ms = timeout},
                priority, numa);
}

int hf3fs_iorcreate4(hf3fs_ior* ior, const char* mount, int entries, bool for_read, int io_depth, int timeout,
                     int numa, uint64_t flags) {
  const RingConfig config{.for_read = for_read, .io_depth = io_depth, .timeout_ms = timeout, .flags = flags};
  return Create(ior, mount, entries, config, 0, numa);
}

// NOLINTNEXTLINE(readability-function-size): 3FS's
int hf3fs_iorwrap(hf3fs_ior* ior, void* buf, const char* mount, size_t size, bool for_read, int io_depth,
                  int priority, int timeout, uint64_t flags) {
  return GuardedErrno([&] {
    const RingConfig config{
        .for_read = for_read, .io_depth = io_depth, .timeout_ms = timeout, .flags = flags};
    const bool is_aligned = reinterpret_cast<uintptr_t>(buf) % alignof(sem_t) == 0;
    if (ior == nullptr || buf == nullptr || !is_aligned || !IsMountArgument(mount)) return -EINVAL;
    if (!IsRingConfig(config, RingEntries(size))) return -EINVAL;
    return -WrapRing(*ior, buf, mount, size, config, priority);
  });
}

void hf3fs_iordestroy(hf3fs_ior* ior) {
  GuardedErrno([&] {
    DestroyRing(ior);
    return 0;
  });
}

int hf3fs_io_entries(const hf3fs_ior* ior) {
  if (ior == nullptr) return -EINVAL;
  return GuardedErrno([&] {
    const std::shared_ptr<Ring> ring = Rings().Find(ior->iorh);
    return ring == nullptr ? -EINVAL : ring->producer().memory().entries();
  });
}

int hf3fs_prep_io(const hf3fs_ior* ior, const hf3fs_iov* iov, bool read, void* ptr, int fd, size_t off,
                  uint64_t len, const void* userdata) {
  return GuardedErrno([&] { return PrepareIo(ior, iov, read, ptr, fd, off, len, userdata); });
}

int hf3fs_submit_ios(const hf3fs_ior* ior) {
  if (ior == nullptr) return -EINVAL;
  return GuardedErrno([&] {
    const std::shared_ptr<Ring> ring = Rings().Find(ior->iorh);
    if (ring == nullptr) return -EINVAL;
    ring->PostSubmit();
    return 0;
  });
}

int hf3fs_wait_for_ios(const hf3fs_ior* ior, hf3fs_cqe* cqes, int cqec, int min_results,
                       const timespec* abs_timeout) {
  if (ior == nullptr || cqes == nullptr || cqec <= 0) return -EINVAL;
  return GuardedErrno([&] {
    const std::shared_ptr<Ring> ring = Rings().Find(ior->iorh);
    if (ring == nullptr) return -EINVAL;
    const auto wanted = static_cast<size_t>(std::clamp(min_results, 0, cqec));
    return WaitForIos(*ring, {cqes, static_cast<size_t>(cqec)}, wanted, abs_timeout);
  });
}

}  // extern "C"
