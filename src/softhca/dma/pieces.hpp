#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "dma/device_memory.hpp"

namespace softhca {

/// A list of pieces of memory. A short one needs no allocation.
class Pieces {
 public:
  void Add(Bytes piece) {
    if (count_ == kFew) many_.assign(few_.begin(), few_.end());
    if (count_ < kFew) {
      few_[count_] = piece;
    } else {
      many_.push_back(piece);
    }
    ++count_;
  }
  void Clear() { count_ = 0; }

  /// Returns the pieces, valid until the list changes or moves.
  std::span<const Bytes> span() const { return {count_ <= kFew ? few_.data() : many_.data(), count_}; }

 private:
  static constexpr size_t kFew = 4;

  std::array<Bytes, kFew> few_{};
  std::vector<Bytes> many_;  ///< all pieces, if there are more than a few
  size_t count_ = 0;
};

}  // namespace softhca
