#pragma once

#include <cstddef>
#include <memory>

#include "perf/initiator/initiator.hpp"

namespace warpverbs::perf {

/// Memory for arrays that both the CPU and an initiator reach.
class SharedArena {
 public:
  SharedArena(const Initiator& initiator, size_t bytes) : memory_(initiator.AllocateShared(bytes)) {}

  /// Allocates `count` zeroed elements.
  ///
  /// @pre  the arena has Bytes<T>(count) left
  template <class T>
  T* Allocate(size_t count) {
    auto* const array = reinterpret_cast<T*>(memory_->data() + used_);
    used_ += Bytes<T>(count);
    return array;
  }

  /// Returns the bytes that Allocate() uses for `count` elements.
  template <class T>
  static constexpr size_t Bytes(size_t count) {
    constexpr size_t kLine = 64;
    return (count * sizeof(T) + kLine - 1) / kLine * kLine;
  }

 private:
  std::unique_ptr<host::Buffer> memory_;
  size_t used_ = 0;
};

}  // namespace warpverbs::perf
