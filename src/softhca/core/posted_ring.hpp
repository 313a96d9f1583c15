#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "warpverbs/mlx5/doorbell.hpp"

namespace softhca {

namespace mlx5 = warpverbs::mlx5;

/// A ring of entries in a program's memory, and the doorbell record that counts those posted.
///
/// The processor's own memory is looked at each time. What lies in a device's is fetched by Fetch() alone,
/// all that is posted at once, and kept: a look there takes as long as many entries.
class PostedRing {
 public:
  PostedRing() = default;
  /// @param depth   entries, a power of two; 0: none
  /// @param stride  bytes of an entry
  PostedRing(const uint8_t* ring, mlx5::Be32* record, uint32_t depth, uint32_t stride);

  /// How many entries are posted from `index` on, modulo 2^16.
  uint32_t Posted(uint32_t index) const {
    const uint32_t end =
        fetched_ ? end_
                 : mlx5::FromBe(mlx5::Be32{std::atomic_ref(record_->raw).load(std::memory_order_acquire)});
    return (end - index) & mlx5::kQpDbrIndexMask;
  }

  /// The entry of an index.
  const uint8_t* Entry(uint32_t index) const {
    return (copy_.empty() ? ring_ : copy_.data()) + size_t{index & (depth_ - 1)} * stride_;
  }

  /// Looks at what the processor cannot see; nothing to do if it can.
  ///
  /// @return  false if the program has freed that memory
  [[nodiscard]] bool Fetch();

  /// The program starts anew at index 0.
  void Reset() { end_ = 0; }

 private:
  bool FetchSlots(uint32_t slot, uint32_t entries);

  const uint8_t* ring_ = nullptr;
  mlx5::Be32* record_ = nullptr;
  uint32_t depth_ = 0;
  uint32_t stride_ = 0;
  bool fetched_ = true;        ///< ring or record lie in a device's memory, or there are none
  std::vector<uint8_t> copy_;  ///< of the ring, if that does
  uint32_t end_ = 0;           ///< the record's value when it was last looked at
};

}  // namespace softhca
