#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/config.hpp"
#include "observe/pcap.hpp"
#include "wire/medium.hpp"

namespace softhca {

/// Writes each frame that a medium carries to a file, once.
class CapturingMedium : public Medium {
 public:
  /// @param macs  this process's MACs: frames from them were written when they were sent
  CapturingMedium(std::unique_ptr<Medium> medium, std::shared_ptr<PcapWriter> writer, std::vector<Mac> macs)
      : medium_(std::move(medium)), writer_(std::move(writer)), macs_(std::move(macs)) {}

  void Send(std::span<const uint8_t> frame) override;
  void Flush() override;
  size_t Receive(size_t most, const FrameSink& sink) override;
  void SetGroups(const std::set<Gid>& groups) override { medium_->SetGroups(groups); }
  void AddDescriptors(std::vector<int>& descriptors) const override { medium_->AddDescriptors(descriptors); }
  bool HasUnsent() const override { return medium_->HasUnsent(); }
  bool HasUnsentTo(const Mac& destination) const override { return medium_->HasUnsentTo(destination); }
  uint64_t NextNs() const override { return medium_->NextNs(); }
  void ReportLosses(const LossSink& sink) override { medium_->ReportLosses(sink); }

 private:
  bool IsOwn(std::span<const uint8_t> frame) const;

  std::unique_ptr<Medium> medium_;
  std::shared_ptr<PcapWriter> writer_;
  std::vector<Mac> macs_;
};

}  // namespace softhca
