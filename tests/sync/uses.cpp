#include <condition_variable>

#include "sync/mutex.hpp"

/// Right uses of a mutex, and with -DREFUSED_<case> a wrong one, which clang must refuse.
namespace warpverbs::inline v0_2::sync {

class Counter {
 public:
  void Add() {
    const LockGuard lock(mutex_);
    AddLocked();
    changed_.notify_all();
  }

  int Take() {
    UniqueLock lock(mutex_);
    while (count_ == 0) changed_.wait(lock);
    changed_.wait(lock, [this]() WARPVERBS_REQUIRES(mutex_) { return count_ != 0; });
    return count_--;
  }

  bool TryAdd() {
    UniqueLock lock(mutex_, std::defer_lock);
    if (!lock.try_lock()) return false;
    AddLocked();
    lock.unlock();
    changed_.notify_all();
    return true;
  }

  Mutex& mutex() WARPVERBS_RETURNS(mutex_) { return mutex_; }
  void AddLocked() WARPVERBS_REQUIRES(mutex_) { ++count_; }
  UniqueLock Lock() WARPVERBS_ACQUIRE(mutex_) WARPVERBS_NO_THREAD_SAFETY_ANALYSIS {
    UniqueLock lock(mutex_);
    return lock;
  }

#ifdef REFUSED_MEMBER
  int count() const { return count_; }
#endif
#ifdef REFUSED_LAMBDA
  bool Has() {
    const LockGuard lock(mutex_);
    return [this] { return count_ != 0; }();
  }
#endif
#ifdef REFUSED_UNLOCKED
  void AddTwice() {
    UniqueLock lock(mutex_);
    ++count_;
    lock.unlock();
    ++count_;
  }
#endif
#ifdef REFUSED_TRY
  void AddAnyway() {
    UniqueLock lock(mutex_, std::defer_lock);
    if (!lock.try_lock()) ++count_;
  }
#endif

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  int count_ WARPVERBS_GUARDED_BY(mutex_) = 0;
};

void AddTwo(Counter& counter) {
  {
    const LockGuard lock(counter.mutex());
    counter.AddLocked();
  }
  const UniqueLock lock = counter.Lock();
  counter.AddLocked();
}

#ifdef REFUSED_FUNCTION
void AddOne(Counter& counter) { counter.AddLocked(); }
#endif
#ifdef REFUSED_LOCK_TWICE
void AddUnderBoth(Counter& counter) {
  const UniqueLock lock = counter.Lock();
  const LockGuard again(counter.mutex());
  counter.AddLocked();
}
#endif

}  // namespace warpverbs::inline v0_2::sync
