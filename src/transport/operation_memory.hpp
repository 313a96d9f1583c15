#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

namespace warpverbs::inline v0_2::transport {

/// Memory for an asynchronous operation that starts again whenever it has ended. Starting it does not
/// allocate.
class OperationMemory {
 public:
  void* Allocate(size_t bytes) {
    if (bytes <= sizeof place_ && !used_.exchange(true, std::memory_order_acquire)) return place_;
    return ::operator new(bytes);
  }
  void Free(void* memory) {
    if (memory != place_) return ::operator delete(memory);
    used_.store(false, std::memory_order_release);
  }

 private:
  alignas(std::max_align_t) std::byte place_[256];
  std::atomic<bool> used_{false};
};

/// A handler whose operation is allocated from an OperationMemory. The handler keeps that memory alive.
template <class Function>
struct InMemory {
  template <class T>
  struct Allocator {
    using value_type = T;
    explicit Allocator(OperationMemory& where) : memory(&where) {}
    template <class U>
    Allocator(const Allocator<U>& other) : memory(other.memory) {}  // NOLINT: allocators convert
    T* allocate(size_t count) { return static_cast<T*>(memory->Allocate(count * sizeof(T))); }
    void deallocate(T* item, size_t) { memory->Free(item); }
    template <class U>
    bool operator==(const Allocator<U>& other) const {
      return memory == other.memory;
    }

    OperationMemory* memory;
  };

  using allocator_type = Allocator<Function>;
  allocator_type get_allocator() const noexcept { return allocator_type(*memory); }
  template <class... Arguments>
  void operator()(Arguments&&... arguments) {
    function(std::forward<Arguments>(arguments)...);
  }

  OperationMemory* memory;
  Function function;
};

template <class Function>
InMemory(OperationMemory*, Function) -> InMemory<Function>;

}  // namespace warpverbs::inline v0_2::transport
