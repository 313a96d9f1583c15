#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "test_queue.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/status.hpp"

namespace warpverbs::inline v0_2::device {

/// A CPU with one primitive that orders nothing, selected by the environment variable LITMUS_WEAKEN. Under
/// ThreadSanitizer, the tests that rely on it must then report a race.
struct LitmusCpu : arch::Cpu {
  static bool IsWeak(std::string_view primitive) {
    static const char* const weakened = std::getenv("LITMUS_WEAKEN");
    return weakened != nullptr && primitive == weakened;
  }

  static inline const uint32_t* record = nullptr;  ///< doorbell record; other 32-bit words are `published`
  static inline uint32_t doorbells = 0;   ///< number of doorbells; not atomic, so that unordered rings race
  static inline uint32_t deliveries = 0;  ///< 64-bit stores, those of a ring; not atomic either

  static void StoreRelease(uint32_t* word, uint32_t value) {
    if (!IsWeak(word == record ? "record" : "published")) return Cpu::StoreRelease(word, value);
    std::atomic_ref(*word).store(value, std::memory_order_relaxed);
  }
  static void StoreRelease(uint64_t* word, uint64_t value) {
    ++deliveries;
    if (!IsWeak("word")) return Cpu::StoreRelease(word, value);
    std::atomic_ref(*word).store(value, std::memory_order_relaxed);
  }
  static void StoreReleased(uint32_t* word, uint32_t value) { StoreRelease(word, value); }
  static void AddReleased(uint64_t* word, uint64_t value) {
    if (!IsWeak("ready")) return Cpu::AddReleased(word, value);
    std::atomic_ref(*word).fetch_add(value, std::memory_order_relaxed);
  }
  static void StoreReleaseMmio(uint64_t* doorbell, mlx5::Be64 value, arch::Mmio mapping) {
    ++doorbells;
    if (!IsWeak("doorbell")) return Cpu::StoreReleaseMmio(doorbell, value, mapping);
    std::atomic_ref(*doorbell).store(value.raw, std::memory_order_relaxed);
  }
  static uint64_t Load(const uint64_t* word) { return IsWeak("load") ? Relaxed(word) : Cpu::Load(word); }
  static uint64_t LoadAcquire(const uint64_t* word) {
    return IsWeak("load_acquire") ? Relaxed(word) : Cpu::LoadAcquire(word);
  }
  static arch::CqeTail LoadCqeTail(const uint8_t* tail) {
    if (!IsWeak("cqe_tail")) return Cpu::LoadCqeTail(tail);
    const auto* const words = reinterpret_cast<const uint64_t*>(tail);
    const uint64_t high = Relaxed(words + 1);
    const bool failed = high >> 60 >= static_cast<uint64_t>(mlx5::CqeOpcode::kRequesterError);
    return {.low = failed ? Relaxed(words) : 0, .high = high};
  }
  static void SyncLanes(arch::LaneMask mask) {
    if (!IsWeak("sync_lanes")) Cpu::SyncLanes(mask);
  }
  static void SyncBlock() {
    if (!IsWeak("sync_block")) Cpu::SyncBlock();
  }
  static uint64_t ShareInBlock(uint64_t value, bool brings) {
    if (IsWeak("sync_block")) Cpu::SyncBlock();  // in place of the weakened one before it
    return Cpu::ShareInBlock(value, brings);
  }

 private:
  static uint64_t Relaxed(const uint64_t* word) {
    return std::atomic_ref(const_cast<uint64_t&>(*word)).load(std::memory_order_relaxed);
  }
};
static_assert(arch::Arch<LitmusCpu>);

/// Runs of each test: a race shows in the first run, a wrong value perhaps only in a later one.
inline constexpr uint32_t kRuns = 50;

inline WaitLimit Soon() { return {.deadline_ns = arch::Cpu::NowNs() + 60'000'000'000}; }

/// Waits for a condition, which must do its own ordering. Returns false if that takes too long.
template <class Condition>
bool Eventually(const Condition& condition) {
  for (const uint64_t deadline = Soon().deadline_ns; !condition(); std::this_thread::yield()) {
    if (arch::Cpu::NowNs() > deadline) return false;
  }
  return true;
}

/// Tells threads when to continue, and orders nothing: visibility is up to the test.
class Steps {
 public:
  void Reach(uint32_t step) { step_.store(step, std::memory_order_relaxed); }
  void Await(uint32_t step) {
    if (!Eventually([&] { return step_.load(std::memory_order_relaxed) >= step; })) std::abort();
  }

 private:
  std::atomic<uint32_t> step_ = 0;
};

/// Runs each function on a thread of its own, and waits for all of them.
template <class... Bodies>
void Concurrently(const Bodies&... bodies) {
  [[maybe_unused]] const std::jthread threads[] = {std::jthread(bodies)...};
}

/// Loads a doorbell record as the NIC does, with everything stored before it.
inline uint32_t SeenRecord(const uint32_t& dbrec) {
  return mlx5::FromBe(
      mlx5::Be32{std::atomic_ref(const_cast<uint32_t&>(dbrec)).load(std::memory_order_acquire)});
}

/// A send queue for a single run.
struct LitmusQueue : TestQueue {
  explicit LitmusQueue(uint32_t depth, TestRing* completions = nullptr) : TestQueue(depth, 0, completions) {
    Watch();
  }
  LitmusQueue(uint32_t depth, TestCq* own) : TestQueue(depth, 0, own) { Watch(); }
  ~LitmusQueue() { LitmusCpu::record = nullptr; }

  /// Waits as the NIC until the record is at least `end`.
  bool AwaitRecord(uint32_t end) const {
    return Eventually([&] { return SeenRecord(dbrec) >= end; });
  }

  /// Reads as the NIC the WQE of a slot, and the word that it writes. Returns 0 for a slot not written yet.
  uint64_t Fetch(uint32_t slot) const {
    const auto* const data = reinterpret_cast<const mlx5::DataSegment*>(ring[slot].bytes + 32);
    const auto* const word = reinterpret_cast<const uint64_t*>(mlx5::FromBe(data->address));
    return word == nullptr ? 0 : *word;
  }

  /// Reports a WQE as the NIC does after all its accesses.
  void Done(uint16_t index) { Complete({.wqe_counter = index}); }

 private:
  void Watch() {
    LitmusCpu::record = &dbrec;
    LitmusCpu::doorbells = LitmusCpu::deliveries = 0;
  }
};

}  // namespace warpverbs::inline v0_2::device
