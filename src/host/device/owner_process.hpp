#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace warpverbs::inline v0_2::host {

/// Remembers the process that made an object with a thread or a mutex. A forked child has a copy of the
/// object, but none of the parent's other threads: nothing answers there, and mutexes and what they guard
/// stay as those threads had left them. So in another process the object's destructor leaves everything as it
/// is, without a wait.
class OwnerProcess {
 public:
  OwnerProcess() : generation_(Generation()) {}

  bool IsThisOne() const { return generation_ == Generation(); }

 private:
  /// Returns how many forks lead to this process. Makes no system call.
  static uint32_t Generation();

  uint32_t generation_;
};

/// Keeps what an object shares alive for the rest of this process. A forked child calls it for objects of its
/// parent.
template <class Object>
void Abandon(std::shared_ptr<Object> object) {
  static_cast<void>(new std::shared_ptr<Object>(std::move(object)));
}

/// An object of the whole program that a forked child gets new, because a thread that the child does not have
/// may have locked the parent's, or changed it by half. Never destroyed: threads may use it until the end.
///
/// Make one static instance for each type, before there are threads.
template <class Object>
class PerProcess {
 public:
  PerProcess() {
    Renew();
    pthread_atfork(nullptr, nullptr, Renew);
  }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  Object& operator*() const { return *std::launder(reinterpret_cast<Object*>(storage_)); }

 private:
  static void Renew() { new (storage_) Object; }

  alignas(Object) static inline std::byte storage_[sizeof(Object)];
};

}  // namespace warpverbs::inline v0_2::host
