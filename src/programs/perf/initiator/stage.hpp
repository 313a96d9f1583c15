#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "perf/initiator/initiator.hpp"

namespace warpverbs::perf {

/// Arrays in memory that the processor and its initiator both reach.
class Stage {
 public:
  Stage(const Initiator& initiator, size_t bytes) : memory_(initiator.Stage(bytes)) {}

  /// The next so many, zero until they are written.
  ///
  /// @pre  they fit
  template <class T>
  T* Take(size_t count) {
    auto* const array = reinterpret_cast<T*>(memory_->data() + used_);
    used_ += Bytes<T>(count);
    return array;
  }

  /// What Take() needs for them.
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
