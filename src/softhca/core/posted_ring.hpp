#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "warpverbs/mlx5/doorbell.hpp"

namespace softhca {

namespace mlx5 = warpverbs::mlx5;

/// A ring of entries in a program's memory, with the doorbell record that counts the posted ones.
///
/// Processor memory is read on each call. Device memory is read by Fetch() only, which copies everything that
/// is posted at once: a read from a device takes as long as executing many entries.
class PostedRing {
 public:
  PostedRing() = default;
  /// @param depth   entries, a power of two; 0: none
  /// @param stride  bytes of an entry
  PostedRing(const uint8_t* ring, mlx5::Be32* record, uint32_t depth, uint32_t stride);

  /// Returns the number of entries posted from `index` on, modulo 2^16.
  uint32_t Posted(uint32_t index) const {
    const uint32_t end =
        fetched_ ? end_
                 : mlx5::FromBe(mlx5::Be32{std::atomic_ref(record_->raw).load(std::memory_order_acquire)});
    return (end - index) & mlx5::kQpDbrIndexMask;
  }

  /// Returns the entry at an index.
  const uint8_t* Entry(uint32_t index) const {
    return (copy_.empty() ? ring_ : copy_.data()) + size_t{index & (depth_ - 1)} * stride_;
  }

  /// Fetches record and entries from device memory; does nothing if both are in processor memory.
  ///
  /// @return  false if the program has freed that memory
  [[nodiscard]] bool Fetch();

  /// Starts again at index 0, as the program does.
  void Reset() { end_ = 0; }

 private:
  bool FetchSlots(uint32_t slot, uint32_t entries);

  const uint8_t* ring_ = nullptr;
  mlx5::Be32* record_ = nullptr;
  uint32_t depth_ = 0;
  uint32_t stride_ = 0;
  bool fetched_ = true;        ///< ring or record is in device memory, or the queue is empty
  std::vector<uint8_t> copy_;  ///< copy of a ring in device memory
  uint32_t end_ = 0;           ///< last value read from the record
};

}  // namespace softhca
