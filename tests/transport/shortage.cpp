#include "shortage.hpp"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sys/epoll.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

extern "C" const char __executable_start, etext;  // defined by the linker

namespace {

thread_local uint64_t g_calls_left = 0;  // number of calls until one fails
thread_local bool g_and_all = false;
std::atomic<int> g_watching{0}, g_addresses{0};

bool Fails(const void* caller) {
  if (g_calls_left == 0 || caller < &__executable_start || caller >= &etext) return false;
  const bool fails = g_calls_left == 1;
  if (!fails || !g_and_all) --g_calls_left;
  return fails;
}

void* Allocate(std::size_t bytes, const void* caller) {
  void* const memory = Fails(caller) ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void warpverbs::transport::FailAllocation(uint64_t number, bool and_all) {
  g_calls_left = number;
  g_and_all = and_all;
}

void warpverbs::transport::FailWatching(int error_number) { g_watching = error_number; }

void warpverbs::transport::FailAddresses(int error_number) { g_addresses = error_number; }

extern "C" ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  if (g_addresses != 0) {
    errno = g_addresses;
    return nullptr;
  }
  static auto* const real = reinterpret_cast<decltype(&ibv_create_ah)>(dlsym(RTLD_NEXT, "ibv_create_ah"));
  return real(pd, attributes);
}

extern "C" int epoll_ctl(int epoll, int operation, int file, epoll_event* event) noexcept {
  if (operation == EPOLL_CTL_ADD && g_watching != 0) {
    errno = g_watching;
    return -1;
  }
  static auto* const real = reinterpret_cast<decltype(&epoll_ctl)>(dlsym(RTLD_NEXT, "epoll_ctl"));
  return real(epoll, operation, file, event);
}

void* operator new(std::size_t bytes) { return Allocate(bytes, __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return Allocate(bytes, __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
