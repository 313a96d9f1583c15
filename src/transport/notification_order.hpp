#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "immediate_data.hpp"

namespace warpverbs::inline v0_2::transport {

/// Assembles notifications: parts arrive in any order, notifications leave in the order of their writes.
///
/// A notification leaves when all parts of its write have arrived, and all parts of every earlier notified
/// write.
class NotificationOrder {
 public:
  /// Largest number of entries in the send and receive queues of all channels of one side. A configuration
  /// with more is refused.
  static constexpr uint32_t kMaxEntries = 1u << 19;

  /// Largest distance of a part from the next notification.
  ///
  /// Proof that no peer of this library exceeds it. Let M be the part that the next notification still
  /// misses, L its channel, and S the sequence of an arriving part. Writes are posted whole and in order, so
  /// every write from M's to S's has posted a part after M. Count these writes:
  /// 1. Writes posted before M arrived. M is in L's send queue, so fewer than `depth` parts follow it on L.
  ///    Pieces go round the channels (Sender::SkipUnposted() too): at most two on each other channel for one
  ///    on L. That makes at most 2 * channels * depth.
  /// 2. Writes posted later. The next poll of L takes M. Until then each other channel is polled once, which
  ///    takes at most `receive_depth` parts; as many may be waiting on each channel, and `depth` be on their
  ///    way. That makes at most 2 * channels * receive_depth + channels * depth.
  static constexpr uint32_t kMaxAhead = 1u << 22;
  static_assert(kMaxAhead > 3 * kMaxEntries + 2 * kMaxEntries);

  /// Adds a part that has arrived.
  ///
  /// @param part  its kind is kPart or kCancelledPart
  /// @return  number of notifications that leave; empty: no peer of this library sends such a part now
  std::optional<uint32_t> Add(const ImmediateData& part);

 private:
  struct Write {
    uint8_t parts = 0;  // 0: none has arrived
    uint8_t missing = 0;
    bool cancelled = false;
  };

  Write& At(uint32_t sequence) { return writes_[sequence & (writes_.size() - 1)]; }
  void Grow(uint32_t ahead);

  uint32_t next_ = 0;  // sequence number; all earlier ones have left
  std::vector<Write> writes_ =
      std::vector<Write>(64);  // indexed by sequence number, from next_; the size is a power of two
};

}  // namespace warpverbs::inline v0_2::transport
