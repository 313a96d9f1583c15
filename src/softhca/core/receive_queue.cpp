#include "core/receive_queue.hpp"

#include <atomic>
#include <cstring>

namespace softhca {

uint32_t ReceiveQueue::Available() const {
  if (config_.depth == 0) return 0;
  const mlx5::Be32 posted{std::atomic_ref(config_.dbr->raw).load(std::memory_order_acquire)};
  return (mlx5::FromBe(posted) - taken_) & mlx5::kQpDbrIndexMask;
}

ReceiveWqe ReceiveQueue::Take() {
  const uint8_t* const slot = config_.ring + size_t{head_} * config_.stride;
  ReceiveWqe wqe;
  wqe.index = static_cast<uint16_t>(config_.linked ? head_ : taken_);
  uint32_t offset = 0;
  uint32_t next = (head_ + 1) % config_.depth;
  if (config_.linked) {
    mlx5::SrqNextSegment link;
    std::memcpy(&link, slot, sizeof link);
    next = mlx5::FromBe(link.next_wqe_index) % config_.depth;
    offset = sizeof link;
  }
  for (; offset + sizeof(mlx5::DataSegment) <= config_.stride; offset += sizeof(mlx5::DataSegment)) {
    mlx5::DataSegment& segment = wqe.segment[wqe.segments];
    std::memcpy(&segment, slot + offset, sizeof segment);
    if (mlx5::FromBe(segment.lkey) == mlx5::kInvalidLkey) break;
    ++wqe.segments;
  }
  head_ = next;
  ++taken_;
  return wqe;
}

}  // namespace softhca
