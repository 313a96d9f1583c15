#pragma once

#include <mutex>

/// Mutexes that say what they guard. clang 16 and later check it, and the build has their findings as errors
/// (-Wthread-safety); to other compilers the attributes are empty, and the types cost what those of the
/// standard library cost.
///
/// The body of a lambda is checked alone: a lambda that uses guarded members says WARPVERBS_REQUIRES, too.
///
/// @source  clang 16's documentation, "Thread Safety Analysis"

#ifdef __clang__
#define WARPVERBS_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define WARPVERBS_THREAD_SAFETY(attribute)
#endif

/// Follows a member that is read and written under that mutex only.
#define WARPVERBS_GUARDED_BY(mutex) WARPVERBS_THREAD_SAFETY(guarded_by(mutex))
/// Follows the parameters of a function whose caller holds that mutex.
#define WARPVERBS_REQUIRES(mutex) WARPVERBS_THREAD_SAFETY(requires_capability(mutex))
/// Follows the parameters of a function that locks that mutex, and returns with it locked. Without a mutex in
/// a mutex or lock: itself.
#define WARPVERBS_ACQUIRE(...) WARPVERBS_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
/// Follows the parameters of a function that unlocks that mutex.
#define WARPVERBS_RELEASE(...) WARPVERBS_THREAD_SAFETY(release_capability(__VA_ARGS__))
/// Follows the parameters of a function that returns whether it has locked the mutex or lock itself.
#define WARPVERBS_TRY_ACQUIRE() WARPVERBS_THREAD_SAFETY(try_acquire_capability(true))
/// Follows the parameters of a function that returns a reference to that mutex.
#define WARPVERBS_RETURNS(mutex) WARPVERBS_THREAD_SAFETY(lock_returned(mutex))
/// Follows the parameters of a function that the analysis cannot follow. A comment says why.
#define WARPVERBS_NO_THREAD_SAFETY_ANALYSIS WARPVERBS_THREAD_SAFETY(no_thread_safety_analysis)

namespace warpverbs::inline v0_2::sync {

class WARPVERBS_THREAD_SAFETY(capability("mutex")) Mutex : public std::mutex {
 public:
  void lock() WARPVERBS_ACQUIRE() { std::mutex::lock(); }
  bool try_lock() WARPVERBS_TRY_ACQUIRE() { return std::mutex::try_lock(); }
  void unlock() WARPVERBS_RELEASE() { std::mutex::unlock(); }
};

/// Holds a mutex while it lives.
class WARPVERBS_THREAD_SAFETY(scoped_lockable) LockGuard {
 public:
  explicit LockGuard(Mutex& mutex) WARPVERBS_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~LockGuard() WARPVERBS_RELEASE() { mutex_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Mutex& mutex_;
};

/// Holds a mutex most of the time that it lives. Condition variables wait with it.
class WARPVERBS_THREAD_SAFETY(scoped_lockable) UniqueLock : public std::unique_lock<std::mutex> {
 public:
  explicit UniqueLock(Mutex& mutex) WARPVERBS_ACQUIRE(mutex) : unique_lock(mutex) {}
  /// Locks nothing yet.
  UniqueLock(Mutex& mutex, std::defer_lock_t defer) noexcept WARPVERBS_THREAD_SAFETY(locks_excluded(mutex))
      : unique_lock(mutex, defer) {}
  ~UniqueLock() WARPVERBS_RELEASE() = default;
  UniqueLock(UniqueLock&&) noexcept = default;
  UniqueLock& operator=(UniqueLock&&) noexcept = default;

  void lock() WARPVERBS_ACQUIRE() { unique_lock::lock(); }
  bool try_lock() WARPVERBS_TRY_ACQUIRE() { return unique_lock::try_lock(); }
  void unlock() WARPVERBS_RELEASE() { unique_lock::unlock(); }
};

}  // namespace warpverbs::inline v0_2::sync
