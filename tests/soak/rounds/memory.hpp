#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "soak/bytes.hpp"

namespace soak {

/// What a part of the peer's memory must hold. Only one thread's operations change that part, and this
/// process maps it, too.
class Shadow {
 public:
  /// Fills the memory.
  Shadow(std::span<uint8_t> memory, uint64_t key) : memory_(memory), sure_(memory.size()) {
    Fill(memory_, key);
    std::copy(memory_.begin(), memory_.end(), sure_.begin());
    maybe_ = sure_;
  }

  const uint8_t* at(size_t offset) const { return &sure_[offset]; }

  /// Notes what an operation writes if it is executed.
  void Expect(size_t offset, std::span<const uint8_t> bytes) {
    std::copy(bytes.begin(), bytes.end(), maybe_.begin() + static_cast<ptrdiff_t>(offset));
  }

  /// Notes that the operation was executed.
  ///
  /// @return  whether the memory shows it
  bool Settle(size_t offset, size_t bytes) {
    std::copy_n(maybe_.begin() + static_cast<ptrdiff_t>(offset), bytes,
                sure_.begin() + static_cast<ptrdiff_t>(offset));
    return std::memcmp(&memory_[offset], &sure_[offset], bytes) == 0;
  }

  /// Notes that the operation was not executed.
  void Withdraw(size_t offset, size_t bytes) {
    std::copy_n(sure_.begin() + static_cast<ptrdiff_t>(offset), bytes,
                maybe_.begin() + static_cast<ptrdiff_t>(offset));
  }

  /// Compares all of the memory: each byte is as it must be, or as an operation that failed would have left
  /// it. Then takes the memory as it is.
  ///
  /// @return  the offset of a wrong byte, or the size
  size_t Compare() {
    size_t wrong = 0;
    while (wrong < memory_.size() && (memory_[wrong] == sure_[wrong] || memory_[wrong] == maybe_[wrong]))
      ++wrong;
    std::copy(memory_.begin(), memory_.end(), sure_.begin());
    maybe_ = sure_;
    return wrong;
  }

  size_t size() const { return memory_.size(); }

 private:
  std::span<uint8_t> memory_;
  std::vector<uint8_t> sure_, maybe_;
};

}  // namespace soak
