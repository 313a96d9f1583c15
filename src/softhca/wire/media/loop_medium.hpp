#pragma once

#include <deque>
#include <vector>

#include "wire/medium.hpp"

namespace softhca {

/// Gives every frame back: for those to addresses of this process.
class LoopMedium : public Medium {
 public:
  void Send(std::span<const uint8_t> frame) override;
  void Flush() override {}
  size_t Receive(size_t most, const FrameSink& sink) override;
  void AddDescriptors(std::vector<int>&) const override {}
  uint64_t NextNs() const override { return waiting_.empty() ? UINT64_MAX : 0; }

 private:
  /// As much as a socket holds; what comes on top is lost there, too.
  static constexpr size_t kMostFrames = 4096;

  std::deque<std::vector<uint8_t>> waiting_;
  std::vector<std::vector<uint8_t>> spare_;
};

}  // namespace softhca
