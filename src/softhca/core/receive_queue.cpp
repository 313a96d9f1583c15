#include "core/receive_queue.hpp"

#include <cstring>

namespace softhca {

uint32_t ReceiveQueue::Available() {
  const uint32_t known = Known();
  return known == 0 && Fetch() ? Known() : known;
}

ReceiveWqe ReceiveQueue::Take() {
  const uint8_t* const slot = ring_.Entry(head_);
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
