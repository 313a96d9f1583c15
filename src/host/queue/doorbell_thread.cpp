#include "warpverbs/host/doorbell_thread.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <utility>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/doorbell.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::host {
namespace {

using arch::Cpu;

constexpr uint64_t kBusyNs = 1'000'000;  // after a doorbell: who rings once rings again
constexpr std::chrono::microseconds kShortestNap{50};
constexpr std::chrono::microseconds kLongestNap{4000};

}  // namespace

DoorbellThread::DoorbellThread() try : thread_([this](const std::stop_token& stop) { Run(stop); }) {
} catch (const std::system_error& error) {
  throw Error::FromErrno("start", "a thread that rings doorbells", error.code().value(),
                         "Raise the limit on threads (ulimit -u), or let endpoints share one: "
                         "EndpointConfig::doorbell_thread");
}

DoorbellThread::Service::Service(DoorbellThread& thread, const DoorbellRoute& route)
    : thread_(thread), route_(route) {
  thread_.Add(*this);
}

DoorbellThread::Service::~Service() { thread_.Remove(*this); }

/// Carries one doorbell to the NIC, if one is there.
///
/// A doorbell that comes while this one is carried replaces it or stays for the next call: the NIC takes the
/// newest for all before it.
bool DoorbellThread::Service::Forward() {
  const uint64_t doorbell = Cpu::Load(route_.word);
  if (doorbell == 0) return false;
  if (Cpu::CompareSwap(route_.word, doorbell, 0) != doorbell) return true;  // there is a newer one
  if (route_.staging != nullptr) {
    // The first 8 bytes of a control segment; the WQE is the last one that is rung for.
    mlx5::Be32 words[2];
    std::memcpy(words, &doorbell, sizeof words);
    const uint32_t segments = mlx5::FromBe(words[1]) & mlx5::kMaxSegments;
    const uint32_t wqebbs = (segments * mlx5::kSegmentBytes + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes;
    CopyWqes(static_cast<uint16_t>((mlx5::FromBe(words[0]) >> 8) + wqebbs));
  }
  Cpu::StoreReleaseMmio(route_.doorbell, {doorbell});
  return true;
}

void DoorbellThread::Service::CopyWqes(uint16_t end) {
  for (; posted_ != end; ++posted_) {
    const size_t at = size_t{posted_ & (route_.depth - 1)} * mlx5::kWqebbBytes;
    std::memcpy(route_.sq + at, route_.staging + at, mlx5::kWqebbBytes);
  }
  Cpu::StoreRelease(route_.dbrec, mlx5::ToBe32(end).raw);
}

void DoorbellThread::Add(Service& service) {
  const std::lock_guard lock(mutex_);
  service.next_ = coming_;
  coming_ = &service;
  ++version_;
  changed_.notify_all();
}

void DoorbellThread::Remove(Service& service) {
  std::unique_lock lock(mutex_);
  service.leaving_ = true;
  ++version_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return served_version_ == version_; });  // the thread may be at it just now
}

/// Serves who has come, and no longer who goes. Under mutex_.
void DoorbellThread::TakeChanges() {
  Service** end = &served_;
  while (*end != nullptr) end = &(*end)->next_;
  *end = std::exchange(coming_, nullptr);
  for (Service** link = &served_; *link != nullptr;) {
    if ((*link)->leaving_) {
      *link = (*link)->next_;
    } else {
      link = &(*link)->next_;
    }
  }
  served_version_ = version_;
  changed_.notify_all();
}

void DoorbellThread::Run(const std::stop_token& stop) {
  uint64_t last_doorbell_ns = Cpu::NowNs();
  auto nap = kShortestNap;
  for (uint32_t rounds = 0; !stop.stop_requested(); ++rounds) {
    if (served_version_ != version_.load(std::memory_order_acquire)) {
      const std::lock_guard lock(mutex_);
      TakeChanges();
      nap = kShortestNap;  // who comes will ring soon
      last_doorbell_ns = Cpu::NowNs();
    }
    bool rung = false;
    for (Service* service = served_; service != nullptr; service = service->next_) rung |= service->Forward();
    if (rung) {
      rounds = 0;
      nap = kShortestNap;
      last_doorbell_ns = Cpu::NowNs();
    } else if (served_ != nullptr && Cpu::NowNs() - last_doorbell_ns < kBusyNs) {
      Cpu::Pause(rounds);
    } else {
      std::unique_lock lock(mutex_);
      const auto is_stale = [this] { return served_version_ != version_; };
      if (served_ == nullptr) {
        changed_.wait(lock, stop, is_stale);
      } else {
        changed_.wait_for(lock, stop, nap, is_stale);
      }
      nap = std::min(2 * nap, kLongestNap);
    }
  }
}

}  // namespace warpverbs::host
