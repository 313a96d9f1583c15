#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

namespace warpverbs::inline v0_2::host {

/// Which bytes of a range are free. Thread-safe.
class FreeSpace {
 public:
  /// What a place starts at a multiple of, and is rounded up to: what is polled or written by different
  /// parties has no cache line in common. A multiple of the 64 bytes that a queue may start at.
  ///
  /// @source  Linux 6.6, drivers/infiniband/hw/mlx5/{cq.c,qp.c}: page_offset counts 1/64 of a 4 KiB page
  static constexpr size_t kGrain = 128;

  /// @param bytes  of the range; a part of a grain at its end is never taken
  explicit FreeSpace(size_t bytes);

  /// Takes the first place that is large enough; empty: there is none.
  std::optional<size_t> Take(size_t bytes);

  /// Gives back what Take() answered. Needs no memory: a release path cannot report failure.
  void Give(size_t offset) noexcept;

  size_t used() const;

 private:
  mutable std::mutex mutex_;
  // Bytes by offset. Under mutex_
  std::map<size_t, size_t> free_;  // no two touch
  std::map<size_t, size_t> taken_;
  size_t used_ = 0;  // under mutex_
};

}  // namespace warpverbs::inline v0_2::host
