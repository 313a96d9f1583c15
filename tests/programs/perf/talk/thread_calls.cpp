#include "thread_calls.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>

namespace {

thread_local bool none_left = false;

}  // namespace

warpverbs::perf::NoThreadsLeft::NoThreadsLeft() { none_left = true; }
warpverbs::perf::NoThreadsLeft::~NoThreadsLeft() { none_left = false; }

/// This program's own stands before that of the C library.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) noexcept {
  if (none_left) return EAGAIN;
  static auto* const real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}
