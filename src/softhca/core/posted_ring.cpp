#include "core/posted_ring.hpp"

#include <algorithm>
#include <optional>

#include "dma/device_memory.hpp"

namespace softhca {

PostedRing::PostedRing(const uint8_t* ring, mlx5::Be32* record, uint32_t depth, uint32_t stride)
    : ring_(ring), record_(record), depth_(depth), stride_(stride) {
  if (depth == 0) return;
  const bool device_ring = DeviceOf(ring) != nullptr;
  fetched_ = device_ring || DeviceOf(record) != nullptr;
  if (device_ring) copy_.resize(size_t{depth} * stride);
}

bool PostedRing::Fetch() {
  if (!fetched_ || depth_ == 0) return true;
  const std::optional<uint32_t> record = LoadWord(record_->raw);
  if (!record) return false;
  const uint32_t begin = end_;
  end_ = mlx5::FromBe(mlx5::Be32{*record}) & mlx5::kQpDbrIndexMask;
  if (copy_.empty()) return true;
  // More entries than slots is the program's mistake; SendWqe::Read() and RefuseWithoutReceive() report it.
  const uint32_t entries = std::min((end_ - begin) & mlx5::kQpDbrIndexMask, depth_);
  const uint32_t slot = begin & (depth_ - 1);
  const uint32_t to_end = std::min(entries, depth_ - slot);
  return FetchSlots(slot, to_end) && FetchSlots(0, entries - to_end);
}

bool PostedRing::FetchSlots(uint32_t slot, uint32_t entries) {
  const size_t offset = size_t{slot} * stride_;
  return entries == 0 ||
         DeviceOf(ring_)->Read(copy_.data() + offset, ring_ + offset, size_t{entries} * stride_);
}

}  // namespace softhca
