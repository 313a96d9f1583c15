#include "notification_order.hpp"

#include <bit>
#include <utility>

namespace warpverbs::inline v0_2::transport {

std::optional<uint32_t> NotificationOrder::Add(const ImmediateData& part) {
  const uint32_t ahead = (part.sequence - next_) & ImmediateData::kSequenceMask;
  if (ahead >= kMaxAhead || part.parts == 0) return std::nullopt;
  if (ahead >= writes_.size()) Grow(ahead);
  Write& write = At(part.sequence);
  if (write.parts == 0) write = {.parts = part.parts, .missing = part.parts};
  if (write.parts != part.parts || write.missing == 0) return std::nullopt;
  --write.missing;
  write.cancelled |= part.kind == ImmediateData::Kind::kCancelledPart;

  uint32_t leaving = 0;
  while (At(next_).parts != 0 && At(next_).missing == 0) {
    leaving += At(next_).cancelled ? 0 : 1;
    At(next_) = {};
    next_ = (next_ + 1) & ImmediateData::kSequenceMask;
  }
  return leaving;
}

void NotificationOrder::Grow(uint32_t ahead) {
  std::vector<Write> old = std::exchange(writes_, std::vector<Write>(std::bit_ceil(ahead + 1)));
  for (uint32_t i = 0; i < old.size(); ++i) {
    const uint32_t sequence = next_ + i;
    At(sequence) = old[sequence & (old.size() - 1)];
  }
}

}  // namespace warpverbs::inline v0_2::transport
