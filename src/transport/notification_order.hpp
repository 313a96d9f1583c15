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
  /// How far ahead of the next notification a part may be: what the queues of all lanes hold on both sides
  /// is no more, as options that allow more are refused.
  static constexpr uint32_t kMaxAhead = 1u << 20;

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
