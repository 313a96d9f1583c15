#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "announcement.hpp"

namespace warpverbs::transport {

/// Puts notifications together: parts come in any order, notifications leave in that of their writes.
///
/// A notification leaves when all parts of its write have come, and those of all notified writes before it.
class NotificationOrder {
 public:
  /// Entries that the queues of all lanes of one side have at most, sends and receives: options that ask for
  /// more are refused.
  static constexpr uint32_t kMaxEntries = 1u << 19;

  /// How far ahead of the next notification a part may be.
  ///
  /// That no peer of this library goes further: let part M on lane L be what the next notification still
  /// misses, and S the sequence of a part that is taken. Writes are posted whole, one behind the other, so
  /// all from M's to S's have posted a part behind M; they are counted.
  /// 1. Those posted before M has arrived. M has a place in L's send queue, so behind it there are less than
  ///    `depth` on L; pieces go round the lanes (Sender::LeaveOut() too), at most two on each other lane for
  ///    one on L: no more than 2 * lanes * depth.
  /// 2. Those posted later. The next look at L takes M, and until then each other lane is looked at once,
  ///    which takes `receive_depth` at most; as many may lie on each lane and wait to be taken, and `depth`
  ///    be on their way: no more than 2 * lanes * receive_depth + lanes * depth.
  static constexpr uint32_t kMaxAhead = 1u << 22;
  static_assert(kMaxAhead > 3 * kMaxEntries + 2 * kMaxEntries);

  /// @param part  of kind kPart or kVoidPart
  /// @return  how many notifications leave; empty: no peer of this library sends such a part now
  std::optional<uint32_t> Add(const Announcement& part);

 private:
  struct Write {
    uint8_t parts = 0;  // 0: none has come
    uint8_t missing = 0;
    bool is_void = false;
  };

  Write& At(uint32_t sequence) { return writes_[sequence & (writes_.size() - 1)]; }
  void Grow(uint32_t ahead);

  uint32_t next_ = 0;                                   // sequence number; all before it have left
  std::vector<Write> writes_ = std::vector<Write>(64);  // by sequence number, from next_ on; a power of two
};

}  // namespace warpverbs::transport
