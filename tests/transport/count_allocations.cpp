#include "count_allocations.hpp"

#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace {

std::atomic<uint64_t> g_allocations{0};

/// Says whether the calling thread is softhca's, which runs in this process.
bool IsSofthca() {
  thread_local char name[16] = "";
  if (*name == '\0') pthread_getname_np(pthread_self(), name, sizeof name);
  return std::strcmp(name, "softhca") == 0;
}

void* Allocate(std::size_t bytes) {
  if (!IsSofthca()) g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

uint64_t warpverbs::transport::Allocations() { return g_allocations.load(); }

/// Asio allocates by this function.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  if (!IsSofthca()) g_allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
