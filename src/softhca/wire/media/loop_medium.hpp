#pragma once

#include <deque>
#include <vector>

#include "wire/medium.hpp"

namespace softhca {

/// Returns every frame to its sender, for frames to addresses of this process.
class LoopMedium : public Medium {
 public:
  void Send(std::span<const uint8_t> frame) override;
  void Flush() override {}
  size_t Receive(size_t most, const FrameSink& sink) override;
  void AddDescriptors(std::vector<int>&) const override {}
  uint64_t NextNs() const override { return waiting_.empty() ? UINT64_MAX : 0; }

 private:
  /// As many frames as a socket holds; more are lost, as they would be there.
  static constexpr size_t kMaxFrames = 4096;

  std::deque<std::vector<uint8_t>> waiting_;
  std::vector<std::vector<uint8_t>> spare_;
};

}  // namespace softhca
