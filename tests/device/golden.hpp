#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "test_queue.hpp"
#include "warpverbs/device/memory.hpp"

namespace warpverbs::inline v0_2::device {

/// An expected WQE, built from the wire structs. All other bytes are zero.
class Golden {
 public:
  explicit Golden(mlx5::WqeOpcode opcode, uint32_t opmod = 0)
      : opmod_opcode_(opmod << 24 | static_cast<uint32_t>(opcode)) {}

  template <class Segment>
  Golden& Add(const Segment& segment, uint32_t payload_bytes = 0) {
    bytes_.resize(segments_ * mlx5::kSegmentBytes);
    bytes_.append(reinterpret_cast<const char*>(&segment), sizeof segment);
    segments_ += (sizeof segment + payload_bytes + 15) / mlx5::kSegmentBytes;
    return *this;
  }

  /// Appends the payload of the last inline segment.
  Golden& Payload(const void* data, size_t bytes) {
    bytes_.append(static_cast<const char*>(data), bytes);
    return *this;
  }

  /// Returns the WQE's slots.
  std::string Bytes(uint32_t index, uint32_t flags = mlx5::kCqeAlways, mlx5::Be32 imm = {}) const {
    const mlx5::CtrlSegment control{.opmod_index_opcode = mlx5::ToBe32(opmod_opcode_ | (index & 0xffff) << 8),
                                    .qpn_ds = mlx5::ToBe32(TestQueue::kQpn << 8 | segments_),
                                    .signature = 0,
                                    .dci_stream_high = 0,
                                    .dci_stream_low = 0,
                                    .fm_ce_se = static_cast<uint8_t>(flags),
                                    .imm = imm};
    std::string image = bytes_;
    image.resize((segments_ * mlx5::kSegmentBytes + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes *
                 mlx5::kWqebbBytes);
    std::memcpy(image.data(), &control, sizeof control);
    return image;
  }

 private:
  uint32_t opmod_opcode_;
  std::string bytes_ = std::string(mlx5::kSegmentBytes, '\0');
  uint32_t segments_ = 1;
};

inline mlx5::RemoteAddressSegment SegmentOf(const RemoteMemory& remote) {
  return {mlx5::ToBe64(remote.addr), remote.rkey, {}};
}
inline mlx5::DataSegment SegmentOf(const LocalMemory& local) {
  return {mlx5::ToBe32(static_cast<uint32_t>(local.bytes)), local.lkey, mlx5::ToBe64(local.addr)};
}

/// Returns the bytes of `count` slots from `index` on.
inline std::string SlotsFrom(const TestQueue& queue, uint32_t index, uint32_t count = 1) {
  std::string bytes;
  for (uint32_t i = 0; i < count; ++i) {
    const auto& slot = queue.ring[(index + i) % queue.ring.size()];
    bytes.append(reinterpret_cast<const char*>(slot.bytes), sizeof slot.bytes);
  }
  return bytes;
}

}  // namespace warpverbs::inline v0_2::device
