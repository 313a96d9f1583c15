#include "gpuio/api/fork_guard.hpp"

#include <pthread.h>

#include <utility>
#include <vector>

namespace warpverbs::inline v0_2::gpuio {
namespace {

/// The guarded mutexes. The analysis cannot follow a set of locks.
struct ForkGuards {
  struct Guarded {
    sync::Mutex* mutex;
    std::function<void()> in_child;
  };

  static ForkGuards& The() {
    static auto* const guards = new ForkGuards;  // never destroyed, as what it guards
    return *guards;
  }

  ForkGuards() { pthread_atfork(&BeforeFork, &AfterFork, &InChild); }

  static void BeforeFork() WARPVERBS_NO_THREAD_SAFETY_ANALYSIS {
    The().mutex.lock();
    for (const Guarded& guarded : The().all) guarded.mutex->lock();
  }
  static void AfterFork() WARPVERBS_NO_THREAD_SAFETY_ANALYSIS {
    for (const Guarded& guarded : The().all) guarded.mutex->unlock();
    The().mutex.unlock();
  }
  static void InChild() WARPVERBS_NO_THREAD_SAFETY_ANALYSIS {
    for (const Guarded& guarded : The().all) {
      if (guarded.in_child) guarded.in_child();
    }
    AfterFork();
  }

  sync::Mutex mutex;
  std::vector<Guarded> all WARPVERBS_GUARDED_BY(mutex);
};

}  // namespace

void GuardOverFork(sync::Mutex& mutex, std::function<void()> in_child) {
  ForkGuards& guards = ForkGuards::The();
  const sync::LockGuard lock(guards.mutex);
  guards.all.push_back({&mutex, std::move(in_child)});
}

}  // namespace warpverbs::inline v0_2::gpuio
