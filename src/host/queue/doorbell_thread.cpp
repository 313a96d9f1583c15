#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "device/owner_process.hpp"
#include "queue/doorbell_service.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/doorbell.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using arch::Cpu;

constexpr uint64_t kBusyNs = 1'000'000;  // spins this long after a doorbell: another one is likely
constexpr std::chrono::microseconds kShortestNap{50};
constexpr std::chrono::microseconds kLongestNap{4000};

}  // namespace

class DoorbellThread::Impl {
 public:
  Impl();

  void Add(DoorbellService& service);
  void Remove(DoorbellService& service);
  bool HasThread() const { return owner_.IsThisOne(); }

 private:
  void Run(const std::stop_token& stop);
  uint64_t ApplyChanges() WARPVERBS_REQUIRES(mutex_);

  const OwnerProcess owner_;
  // The services are links of lists, so nothing here allocates.
  sync::Mutex mutex_;
  std::condition_variable_any changed_;
  DoorbellService* added_ WARPVERBS_GUARDED_BY(mutex_) =
      nullptr;                         // services that the thread has not seen yet
  DoorbellService* served_ = nullptr;  // only the thread uses it
  std::atomic<uint64_t> version_{0};   // counts additions and removals; changes under mutex_
  uint64_t served_version_ WARPVERBS_GUARDED_BY(mutex_) = 0;  // version the thread acts on
  std::jthread thread_;  // last member: ends before the others are destroyed
};

DoorbellThread::DoorbellThread() : impl_(std::make_unique<Impl>()) {}
DoorbellThread::~DoorbellThread() {
  if (!impl_->HasThread()) static_cast<void>(impl_.release());
}

DoorbellThread::Impl::Impl() try : thread_([this](const std::stop_token& stop) { Run(stop); }) {
} catch (const std::system_error& error) {
  throw Error::FromErrno(
      "start", "a thread that rings doorbells", error.code().value(),
      "Raise the limits on threads and memory (ulimit -u, ulimit -v), or let endpoints share one: "
      "EndpointConfig::doorbell_thread");
}

DoorbellService::DoorbellService(DoorbellThread& thread, const DoorbellRoute& route)
    : thread_(*thread.impl_), route_(route) {
  thread_.Add(*this);
}

DoorbellService::~DoorbellService() { thread_.Remove(*this); }

/// Forwards one doorbell to the NIC, if there is one. Returns whether there was one.
///
/// A doorbell that arrives meanwhile replaces this one or stays for the next call: to the NIC, the newest
/// doorbell covers all earlier ones.
bool DoorbellService::Forward() {
  const uint64_t doorbell = Cpu::Load(route_.word);
  if (doorbell == 0) return false;
  if (Cpu::CompareSwap(route_.word, doorbell, 0) != doorbell) return true;  // a newer one has arrived
  Cpu::AcquireAfterCompletion();  // a GPU wrote the WQEs, as a NIC writes data
  if (route_.staging != nullptr) {
    // A doorbell is the first 8 bytes of the control segment of the last posted WQE.
    mlx5::Be32 words[2];
    std::memcpy(words, &doorbell, sizeof words);
    const uint32_t segments = mlx5::FromBe(words[1]) & mlx5::kMaxSegments;
    const uint32_t wqebbs = (segments * mlx5::kSegmentBytes + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes;
    CopyWqes(static_cast<uint16_t>((mlx5::FromBe(words[0]) >> 8) + wqebbs));
  }
  Cpu::StoreReleaseMmio(route_.doorbell, mlx5::Be64{doorbell}, route_.mapping);
  return true;
}

void DoorbellService::CopyWqes(uint16_t end) {
  for (; posted_ != end; ++posted_) {
    const size_t at = size_t{posted_ & (route_.depth - 1)} * mlx5::kWqebbBytes;
    std::memcpy(route_.sq + at, route_.staging + at, mlx5::kWqebbBytes);
  }
  Cpu::StoreRelease(route_.dbrec, mlx5::ToBe32(end).raw);
}

void DoorbellThread::Impl::Add(DoorbellService& service) {
  if (!HasThread()) {
    throw Error("add", "a queue to a thread that rings doorbells",
                "this process was forked from the one that started the thread",
                "Start one in the process that uses the queue");
  }
  const sync::LockGuard lock(mutex_);
  service.next_ = added_;
  added_ = &service;
  ++version_;
  changed_.notify_all();
}

void DoorbellThread::Impl::Remove(DoorbellService& service) {
  if (!HasThread()) return;
  sync::UniqueLock lock(mutex_);
  service.leaving_ = true;
  ++version_;
  changed_.notify_all();
  while (served_version_ != version_) changed_.wait(lock);  // the thread may be serving it
}

/// Starts to serve added services, and drops those that leave. Returns the version that the thread acts on.
uint64_t DoorbellThread::Impl::ApplyChanges() {
  DoorbellService** end = &served_;
  while (*end != nullptr) end = &(*end)->next_;
  *end = std::exchange(added_, nullptr);
  for (DoorbellService** link = &served_; *link != nullptr;) {
    if ((*link)->leaving_) {
      *link = (*link)->next_;
    } else {
      link = &(*link)->next_;
    }
  }
  served_version_ = version_;
  changed_.notify_all();
  return served_version_;
}

void DoorbellThread::Impl::Run(const std::stop_token& stop) {
  uint64_t version = 0;  // that the thread acts on
  uint64_t last_doorbell_ns = Cpu::NowNs();
  auto nap = kShortestNap;
  for (uint32_t rounds = 0; !stop.stop_requested(); ++rounds) {
    if (version != version_.load(std::memory_order_acquire)) {
      const sync::LockGuard lock(mutex_);
      version = ApplyChanges();
      nap = kShortestNap;  // a new service rings soon
      last_doorbell_ns = Cpu::NowNs();
    }
    bool forwarded = false;
    for (DoorbellService* service = served_; service != nullptr; service = service->next_) {
      forwarded |= service->Forward();
    }
    if (forwarded) {
      rounds = 0;
      nap = kShortestNap;
      last_doorbell_ns = Cpu::NowNs();
    } else if (served_ != nullptr && Cpu::NowNs() - last_doorbell_ns < kBusyNs) {
      Cpu::Pause(rounds);
    } else {
      sync::UniqueLock lock(mutex_);
      const auto is_stale = [&] { return version != version_; };
      if (served_ == nullptr) {
        changed_.wait(lock, stop, is_stale);
      } else {
        changed_.wait_for(lock, stop, nap, is_stale);
      }
      nap = std::min(2 * nap, kLongestNap);
    }
  }
}

}  // namespace warpverbs::inline v0_2::host
