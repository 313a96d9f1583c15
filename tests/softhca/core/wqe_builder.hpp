#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "warpverbs/mlx5/wqe.hpp"

namespace softhca {

namespace mlx5 = warpverbs::mlx5;

inline constexpr uint8_t kExtended4 = static_cast<uint8_t>(mlx5::AtomicOpmod::kExtended4);
inline constexpr uint8_t kExtended8 = static_cast<uint8_t>(mlx5::AtomicOpmod::kExtended8);

/// Builds a send WQE segment by segment; signalled by default.
class WqeBuilder {
 public:
  explicit WqeBuilder(mlx5::WqeOpcode opcode, uint8_t opmod = 0) : opcode_(opcode), opmod_(opmod) {}

  template <class Segment>
  WqeBuilder& Add(const Segment& segment) {
    return Append(&segment, sizeof segment);
  }
  WqeBuilder& Remote(uint64_t address, uint32_t rkey) {
    return Add(mlx5::RemoteAddressSegment{mlx5::ToBe64(address), mlx5::ToBe32(rkey), {}});
  }
  WqeBuilder& To(const mlx5::DatagramSegment& destination) { return Add(destination); }
  WqeBuilder& Data(uint64_t address, uint32_t bytes, uint32_t lkey) {
    return Add(mlx5::DataSegment{mlx5::ToBe32(bytes), mlx5::ToBe32(lkey), mlx5::ToBe64(address)});
  }
  WqeBuilder& Inline(std::string_view payload) {
    Add(mlx5::InlineSegment{mlx5::ToBe32(mlx5::kInlineFlag | static_cast<uint32_t>(payload.size()))});
    Append(payload.data(), payload.size());
    segments_.resize((segments_.size() + mlx5::kSegmentBytes - 1) / mlx5::kSegmentBytes *
                     mlx5::kSegmentBytes);
    return *this;
  }
  WqeBuilder& Flags(uint8_t flags) {
    flags_ = flags;
    return *this;
  }
  WqeBuilder& Imm(mlx5::Be32 imm) {
    imm_ = imm;
    return *this;
  }

  /// @return  the WQE for slot `index`, padded to whole WQEBBs
  std::vector<uint8_t> Build(uint16_t index, uint32_t qpn) const {
    const auto ds = static_cast<uint32_t>(1 + segments_.size() / mlx5::kSegmentBytes);
    const mlx5::CtrlSegment ctrl{
        .opmod_index_opcode =
            mlx5::ToBe32(uint32_t{opmod_} << 24 | uint32_t{index} << 8 | static_cast<uint32_t>(opcode_)),
        .qpn_ds = mlx5::ToBe32(qpn << 8 | ds),
        .signature = 0,
        .dci_stream_high = 0,
        .dci_stream_low = 0,
        .fm_ce_se = flags_,
        .imm = imm_};
    const size_t bytes = sizeof ctrl + segments_.size();
    std::vector<uint8_t> wqe((bytes + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes * mlx5::kWqebbBytes);
    std::memcpy(wqe.data(), &ctrl, sizeof ctrl);
    std::copy(segments_.begin(), segments_.end(), wqe.begin() + sizeof ctrl);
    return wqe;
  }

 private:
  WqeBuilder& Append(const void* bytes, size_t count) {
    const auto* const first = static_cast<const uint8_t*>(bytes);
    segments_.insert(segments_.end(), first, first + count);
    return *this;
  }

  mlx5::WqeOpcode opcode_;
  uint8_t opmod_;
  uint8_t flags_ = mlx5::kCqeAlways;
  mlx5::Be32 imm_{};
  std::vector<uint8_t> segments_;
};

}  // namespace softhca
