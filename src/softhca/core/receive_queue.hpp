#pragma once

#include <array>
#include <cstdint>

#include "core/posted_ring.hpp"
#include "warpverbs/mlx5/doorbell.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace softhca {

namespace mlx5 = warpverbs::mlx5;

struct ReceiveQueueConfig {
  uint8_t* ring = nullptr;
  mlx5::Be32* dbr = nullptr;  ///< free-running count of posted WQEs, modulo 2^16
  uint32_t depth = 0;
  uint32_t stride = 0;  ///< bytes of a WQE, at most ReceiveWqe::kMaxSegments segments
  bool linked = false;  ///< shared queue: each WQE starts with the index of the next
};

/// A posted receive.
struct ReceiveWqe {
  static constexpr uint32_t kMaxSegments = 32;

  uint16_t index = 0;
  uint32_t segments = 0;
  std::array<mlx5::DataSegment, kMaxSegments> segment;
};

/// A queue of posted receives in a program's memory: a queue pair's own ring, or a shared queue's linked
/// list.
class ReceiveQueue {
 public:
  explicit ReceiveQueue(const ReceiveQueueConfig& config)
      : config_(config), ring_(config.ring, config.dbr, config.depth, config.stride) {}

  /// Returns the number of posted receives; the program may post more at any time.
  uint32_t Available();
  /// Returns the number of posted receives as last fetched. Differs from Available() for device memory only.
  uint32_t Known() const { return ring_.Posted(taken_); }
  /// Fetches newly posted receives, as PostedRing::Fetch() does.
  [[nodiscard]] bool Fetch() { return ring_.Fetch(); }
  /// Takes the oldest receive.
  ///
  /// @pre  Available() != 0
  ReceiveWqe Take();
  void Reset() {
    taken_ = 0, head_ = 0;
    ring_.Reset();
  }

  const ReceiveQueueConfig& config() const { return config_; }

 private:
  ReceiveQueueConfig config_;
  PostedRing ring_;
  uint32_t taken_ = 0;
  uint32_t head_ = 0;  ///< slot of the next receive
};

}  // namespace softhca
