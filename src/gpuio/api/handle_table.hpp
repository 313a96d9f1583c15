#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "gpuio/api/fork_guard.hpp"
#include "sync/mutex.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Live objects by the handles in the application's structs, which may be stale, or copies.
///
/// A handle is never used again, so a stale one finds nothing. Thread-safe. Lives as long as the process.
template <class T>
class HandleTable {
 public:
  HandleTable() { GuardOverFork(mutex_); }

  void* Add(std::shared_ptr<T> object) {
    const sync::LockGuard lock(mutex_);
    objects_.emplace(++last_, std::move(object));
    return reinterpret_cast<void*>(last_);
  }

  std::shared_ptr<T> Find(const void* handle) const {
    const sync::LockGuard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }

  /// @return  whether it was there: of two threads that remove one object, one gets true
  bool Remove(const void* handle) {
    typename decltype(objects_)::node_type removed;  // destroyed without the lock
    const sync::LockGuard lock(mutex_);
    removed = objects_.extract(reinterpret_cast<uintptr_t>(handle));
    return !removed.empty();
  }

  /// Returns the first object that a condition is true for, or nullptr.
  template <class Condition>
  std::shared_ptr<T> FindIf(const Condition& condition) const {
    const sync::LockGuard lock(mutex_);
    for (const auto& [handle, object] : objects_) {
      if (condition(*object)) return object;
    }
    return nullptr;
  }

 private:
  mutable sync::Mutex mutex_;
  uintptr_t last_ WARPVERBS_GUARDED_BY(mutex_) = 0;
  std::map<uintptr_t, std::shared_ptr<T>> objects_ WARPVERBS_GUARDED_BY(mutex_);
};

}  // namespace warpverbs::inline v0_2::gpuio
