#include "gpuio/ring/shared_semaphore.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <ctime>

namespace warpverbs::inline v0_2::gpuio {
namespace {

// The first 64 bits: the value in the lower half, the number of waiters in the upper one.
static_assert(sizeof(sem_t) == 32 && alignof(sem_t) == 8, "this is the layout of glibc on 64-bit processors");
static_assert(std::endian::native == std::endian::little, "the kernel waits on the value, which comes first");
constexpr uint64_t kWaiter = uint64_t{1} << 32;
constexpr uint64_t kPosts = kWaiter - 1;

std::atomic_ref<uint64_t> WordOf(sem_t* semaphore) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(semaphore));
}

bool TakeOne(sem_t* semaphore) {
  const std::atomic_ref<uint64_t> word = WordOf(semaphore);
  uint64_t value = word.load(std::memory_order_relaxed);
  while (static_cast<uint32_t>(value) != 0) {
    if (word.compare_exchange_weak(value, value - 1, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
  }
  return false;
}

}  // namespace

void SharedSemaphore::Post() const {
  const std::atomic_ref<uint64_t> word = WordOf(semaphore_);
  uint64_t value = word.load(std::memory_order_relaxed);
  do {
    if (static_cast<uint32_t>(value) >= INT32_MAX) return;  // as sem_post(): EOVERFLOW
  } while (
      !word.compare_exchange_weak(value, value + 1, std::memory_order_release, std::memory_order_relaxed));
  if (value >= kWaiter) syscall(SYS_futex, semaphore_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

uint32_t SharedSemaphore::TakeAll() const {
  const std::atomic_ref<uint64_t> word = WordOf(semaphore_);
  if ((word.load(std::memory_order_relaxed) & kPosts) == 0) return 0;  // the usual case writes nothing
  return static_cast<uint32_t>(word.fetch_and(~kPosts, std::memory_order_acquire));
}

bool SharedSemaphore::WaitFor(std::chrono::nanoseconds time) const {
  if (TakeOne(semaphore_)) return true;
  if (time.count() <= 0) return false;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (time - seconds).count()};
  const std::atomic_ref<uint64_t> word = WordOf(semaphore_);
  word.fetch_add(kWaiter, std::memory_order_relaxed);
  const long result = syscall(SYS_futex, semaphore_, FUTEX_WAIT, 0, &timeout, nullptr, 0);
  const bool is_damaged = result != 0 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT;
  word.fetch_sub(kWaiter, std::memory_order_relaxed);
  if (TakeOne(semaphore_)) return true;
  if (is_damaged) nanosleep(&timeout, nullptr);  // its memory is gone
  return false;
}

}  // namespace warpverbs::inline v0_2::gpuio
