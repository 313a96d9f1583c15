#include "observe/capturing_medium.hpp"

#include <algorithm>

#include "wire/media/socket.hpp"

namespace softhca {

bool CapturingMedium::IsOwn(std::span<const uint8_t> frame) const {
  return std::find(macs_.begin(), macs_.end(), SourceMac(frame, writer_->link())) != macs_.end();
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
