#include "observe/capturing_medium.hpp"

#include <algorithm>

namespace softhca {

bool CapturingMedium::IsOwn(std::span<const uint8_t> frame) const {
  constexpr size_t kSource = sizeof(Mac);  // after the destination
  return std::any_of(macs_.begin(), macs_.end(), [&](const Mac& mac) {
    return frame.size() >= kSource + mac.size() &&
           std::equal(mac.begin(), mac.end(), frame.begin() + kSource);
  });
}

void CapturingMedium::Send(std::span<const uint8_t> frame) {
  writer_->Write(frame);
  writer_->Flush();  // the frame may leave at once, and the file must have each frame that a peer received
  medium_->Send(frame);
}

void CapturingMedium::Flush() {
  writer_->Flush();
  medium_->Flush();
}

size_t CapturingMedium::Receive(size_t most, const FrameSink& sink) {
  return medium_->Receive(most, [&](std::span<const uint8_t> frame) {
    if (!IsOwn(frame)) writer_->Write(frame);
    sink(frame);
  });
}

}  // namespace softhca
