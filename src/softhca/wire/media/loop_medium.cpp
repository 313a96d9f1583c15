#include "wire/media/loop_medium.hpp"

#include <utility>

namespace softhca {

void LoopMedium::Send(std::span<const uint8_t> frame) {
  if (waiting_.size() == kMaxFrames) return Lose("the receiver's queue is full");
  std::vector<uint8_t> copy;
  if (!spare_.empty()) {
    copy = std::move(spare_.back());
    spare_.pop_back();
  }
  copy.assign(frame.begin(), frame.end());
  waiting_.push_back(std::move(copy));
}

size_t LoopMedium::Receive(size_t most, const FrameSink& sink) {
  size_t count = 0;
  for (; count < most && !waiting_.empty(); ++count) {
    std::vector<uint8_t> frame = std::move(waiting_.front());
    waiting_.pop_front();
    sink(frame);
    spare_.push_back(std::move(frame));
  }
  return count;
}

}  // namespace softhca
