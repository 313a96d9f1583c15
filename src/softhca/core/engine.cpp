#include "core/engine.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <utility>

#include "core/pacing.hpp"
#include "core/send_queue.hpp"
#include "sync/mutex.hpp"

namespace softhca {
namespace {

/// Returns the latest value written to a doorbell register, and clears it; 0 if nothing was written.
uint64_t TakeDoorbell(uint8_t* page, uint32_t offset) {
  std::atomic_ref word(*reinterpret_cast<uint64_t*>(page + offset));
  if (word.load(std::memory_order_relaxed) == 0) return 0;
  return word.exchange(0, std::memory_order_acquire);
}

/// Handles a send doorbell.
///
/// A later doorbell on the page may have overwritten that of another queue, so every queue of the page that
/// can run is checked. A queue whose state allows no doorbell fails only if the doorbell names it.
void RingSendQueues(Hca& hca, uint32_t uar, uint64_t doorbell) {
  const uint32_t named = mlx5::FromBe(mlx5::Be64{doorbell}) >> 8 & 0xffffff;
  for (auto& [qpn, qp] : hca.qps()) {
    if (qp->config.uar_page != uar) continue;
    const bool runs = qp->state == mlx5::QpState::kRts || qp->state == mlx5::QpState::kError;
    if (!runs && qpn != named) continue;
    qp->doorbell_pending = true;
    if (qpn == named) qp->retry.now = qp->retry.timeouts != 0 && qp->retry.rnr_retries == 0;
    FetchPosted(*qp);
    if (Observer* const observer = hca.observer()) observer->OnDoorbell(*qp);
  }
}

void RingCompletionQueues(Hca& hca, uint32_t uar, uint64_t doorbell) {
  const uint32_t named = mlx5::FromBe(mlx5::Be64{doorbell}) & 0xffffff;
  for (auto& [cqn, cq] : hca.cqs()) {
    if (cq->config().uar_page == uar) cq->OnArmDoorbell(cqn == named);
  }
}

/// @return  whether a send queue was rung
bool PollDoorbells(Hca& hca) {
  bool rung = false;
  for (const auto& [uar, page] : hca.uars()) {
    for (uint32_t i = 0; i < mlx5::kUarSendDoorbells; ++i) {
      const uint64_t doorbell = TakeDoorbell(page, mlx5::kUarSendDoorbell + i * mlx5::kUarSendDoorbellStep);
      if (doorbell == 0) continue;
      RingSendQueues(hca, uar, doorbell);
      rung = true;
    }
    const uint64_t arm = TakeDoorbell(page, mlx5::kUarCqDoorbell);
    if (arm != 0) RingCompletionQueues(hca, uar, arm);
  }
  return rung;
}

/// Ends the program with a sentence. What the NIC was doing is lost, and a doorbell or a frame cannot be
/// refused.
[[noreturn]] void AbortWithoutMemory() {
  constexpr char kText[] =
      "softhca: the software NIC has no memory to go on. Raise the limit on memory (ulimit -v).\n";
  static_cast<void>(!write(STDERR_FILENO, kText, sizeof kText - 1));
  std::abort();
}

}  // namespace

Engine::Engine(std::vector<std::unique_ptr<Hca>> devices, std::unique_ptr<Network> network)
    : network_(std::move(network)), devices_(std::move(devices)) {
  for (auto& hca : devices_) hca->SetNetwork(network_.get());
  // Signals of the program must be handled by the program's own threads.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  thread_ = std::thread([this] {
    // First, so that observers can attribute all it does. Peers know it by that name, see EngineThreads.
    pthread_setname_np(pthread_self(), "softhca");
    try {
      Run();
    } catch (const std::bad_alloc&) {
      AbortWithoutMemory();
    }
  });
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

Engine::~Engine() { Stop(); }

void Engine::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

// The analysis does not know that the variable is what is returned.
sync::UniqueLock Engine::Pause() WARPVERBS_NO_THREAD_SAFETY_ANALYSIS {
  pausing_.fetch_add(1);
  sync::UniqueLock lock(mutex_);
  pausing_.fetch_sub(1);
  // Doorbells rung before the command take effect before it.
  for (auto& hca : devices_) rung_ |= PollDoorbells(*hca);
  return lock;
}

// Nor that the lock may own nothing.
sync::UniqueLock Engine::PauseFor(std::chrono::milliseconds limit) WARPVERBS_NO_THREAD_SAFETY_ANALYSIS {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  sync::UniqueLock lock(mutex_, std::defer_lock);
  while (!lock.try_lock() && std::chrono::steady_clock::now() < deadline) sched_yield();
  return lock;
}

void Engine::Run() {
  // Longer than any sleep: an engine that begins no pass for this long waits for a processor, or is stopped.
  constexpr uint64_t kLongestPauseNs = 10'000'000;
  static_assert(kLongestPauseNs > 2 * kLongestSleepNs);
  PreferLatency();
  Pacing pacing;
  uint64_t last_pass_ns = NowNs();
  while (!stop_.load(std::memory_order_relaxed)) {
    // Never block on the mutex: a signal handler may have interrupted a command for good, and Stop() must
    // still succeed. Waiting commands go first: the mutex alone would starve them.
    sync::UniqueLock lock(mutex_, std::defer_lock);
    if (pausing_.load(std::memory_order_relaxed) != 0 || !lock.try_lock()) {
      sched_yield();
      continue;
    }
    const uint64_t now = NowNs();
    // What is above the limit only, so that the timers of an engine that is always slow end, too.
    if (now - last_pass_ns > kLongestPauseNs) network_->OnStall(now - last_pass_ns - kLongestPauseNs);
    last_pass_ns = now;
    const bool worked = RunOnce(now);
    const uint64_t next = worked ? now : network_->NextNs();
    lock.unlock();
    worked ? pacing.OnWork(now) : pacing.Wait(now, next, *network_);
  }
  Drain();
}

/// Sends what is still queued: a program may exit as soon as it has seen its last completion, while its peer
/// still waits for the acknowledgement.
void Engine::Drain() {
  constexpr uint64_t kLimitNs = 200'000'000;  // the peer may have died
  const uint64_t end = NowNs() + kLimitNs;
  for (uint64_t now = NowNs(); now < end; now = NowNs()) {
    if (sync::UniqueLock lock(mutex_, std::defer_lock); lock.try_lock()) {
      network_->Poll(now);
      if (!network_->HasUnsent()) return;
    }
    sched_yield();
  }
}

bool Engine::RunOnce(uint64_t now_ns) {
  for (auto& hca : devices_) rung_ |= PollDoorbells(*hca);
  bool worked = false;
  const auto run = [&](auto&& is_due) {
    for (auto& hca : devices_) {
      for (auto& [qpn, qp] : hca->qps()) {
        if (is_due(*qp)) worked |= network_->Run(*qp, now_ns);
      }
    }
  };
  if (std::exchange(rung_, false)) {
    // The first reading may have missed a doorbell that was rung before one that it found: it had already
    // read that register.
    for (auto& hca : devices_) PollDoorbells(*hca);
    // Doorbells that are read together have lost their order. A card changes a key before a request that is
    // posted afterwards reaches its peer.
    run([](const QueuePair& qp) { return qp.doorbell_pending && BeginsWithKeyChange(qp); });
  }
  run([](const QueuePair& qp) { return qp.doorbell_pending || qp.state == mlx5::QpState::kError; });
  worked |= network_->Poll(now_ns);
  if (!worked && !devices_.empty() && devices_.front()->observer() != nullptr) {
    devices_.front()->observer()->OnIdle();
  }
  return worked;
}

}  // namespace softhca
