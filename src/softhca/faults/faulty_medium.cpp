#include "faults/faulty_medium.hpp"

#include <algorithm>
#include <utility>

namespace softhca {

FaultyMedium::FaultyMedium(std::unique_ptr<Medium> medium, const FaultPlan& plan,
                           std::shared_ptr<FaultDice> dice, Clock now_ns, mlx5::PortType link)
    : medium_(std::move(medium)),
      now_ns_(std::move(now_ns)),
      sent_(Direction::kSent, dice, link),
      received_(Direction::kReceived, dice, link, plan.slow_ns),
      forward_([this](std::span<const uint8_t> frame) { medium_->Send(frame); }) {}

void FaultyMedium::Send(std::span<const uint8_t> frame) { sent_.Take(frame, now_ns_(), forward_); }

void FaultyMedium::Flush() {
  sent_.Release(now_ns_(), forward_);
  medium_->Flush();
}

size_t FaultyMedium::Receive(size_t most, const FrameSink& sink) {
  const uint64_t now_ns = now_ns_();
  const size_t arrived =
      medium_->Receive(most, [&](std::span<const uint8_t> frame) { received_.Take(frame, now_ns, sink); });
  return arrived + received_.Release(now_ns, sink);
}

void FaultyMedium::ReportLosses(const LossSink& sink) {
  medium_->ReportLosses(sink);
  sent_.ReportLosses(sink);
  received_.ReportLosses(sink);
}

uint64_t FaultyMedium::NextNs() const {
  return std::min({medium_->NextNs(), sent_.NextNs(), received_.NextNs()});
}

}  // namespace softhca
