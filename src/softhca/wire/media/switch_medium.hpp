#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "wire/medium.hpp"

namespace softhca {

/// Combines several media: each frame goes to the first medium that takes it, and a copy to each medium
/// before that takes copies. A frame that none takes is lost.
class SwitchMedium : public Medium {
 public:
  using Predicate = std::function<bool(std::span<const uint8_t> frame)>;

  void Add(Predicate takes, std::unique_ptr<Medium> medium) {
    branches_.push_back({std::move(takes), std::move(medium), false});
  }
  /// Adds a medium that takes copies only.
  void AddCopy(Predicate takes, std::unique_ptr<Medium> medium) {
    branches_.push_back({std::move(takes), std::move(medium), true});
  }

  void Send(std::span<const uint8_t> frame) override;
  void Flush() override;
  size_t Receive(size_t most, const FrameSink& sink) override;
  void SetGroups(const std::set<Gid>& groups) override;
  void AddDescriptors(std::vector<int>& descriptors) const override;
  bool HasUnsent() const override;
  bool HasUnsentTo(const Mac& destination) const override;
  uint64_t NextNs() const override;
  void ReportLosses(const LossSink& sink) override;

 private:
  struct Branch {
    Predicate takes;
    std::unique_ptr<Medium> medium;
    bool copies;
  };
  std::vector<Branch> branches_;
};

}  // namespace softhca
