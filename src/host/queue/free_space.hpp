#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "sync/mutex.hpp"

namespace warpverbs::inline v0_2::host {

/// Allocates places in a range of bytes. Thread-safe.
class FreeSpace {
 public:
  /// Alignment and granularity of places, so that two owners share no cache line. A multiple of the 64 bytes
  /// at which a queue may start.
  ///
  /// @source  Linux 6.6, drivers/infiniband/hw/mlx5/{cq.c,qp.c}: page_offset counts 1/64 of a 4 KiB page
  static constexpr size_t kGrain = 128;

  /// @param bytes  size of the range; an incomplete grain at its end stays unused
  explicit FreeSpace(size_t bytes);

  /// Takes the first free place of that size; empty: no room.
  std::optional<size_t> Take(size_t bytes);

  /// Frees a place of Take(). Allocates nothing: a release path cannot report failure.
  void Give(size_t offset) noexcept;

  size_t used() const;

 private:
  mutable sync::Mutex mutex_;
  // Sizes by offset.
  std::map<size_t, size_t> free_ WARPVERBS_GUARDED_BY(mutex_);  // no two are adjacent
  std::map<size_t, size_t> taken_ WARPVERBS_GUARDED_BY(mutex_);
  size_t used_ WARPVERBS_GUARDED_BY(mutex_) = 0;
};

}  // namespace warpverbs::inline v0_2::host
