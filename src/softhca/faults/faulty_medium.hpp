#pragma once

#include <functional>
#include <memory>

#include "faults/faulty_direction.hpp"
#include "wire/medium.hpp"

namespace softhca {

/// Wraps a medium and injects faults into its RDMA frames. Other frames pass unchanged.
class FaultyMedium : public Medium {
 public:
  using Clock = std::function<uint64_t()>;

  /// @param dice  may be shared by several media, whose frames then count together
  FaultyMedium(std::unique_ptr<Medium> medium, const FaultPlan& plan, std::shared_ptr<FaultDice> dice,
               Clock now_ns, mlx5::PortType link = mlx5::PortType::kEthernet);

  void Send(std::span<const uint8_t> frame) override;
  void Flush() override;
  size_t Receive(size_t most, const FrameSink& sink) override;
  void SetGroups(const std::set<Gid>& groups) override { medium_->SetGroups(groups); }
  void AddDescriptors(std::vector<int>& descriptors) const override { medium_->AddDescriptors(descriptors); }
  bool HasUnsent() const override { return sent_.NextNs() != UINT64_MAX || medium_->HasUnsent(); }
  bool HasUnsentTo(const Mac& destination) const override { return medium_->HasUnsentTo(destination); }
  uint64_t NextNs() const override;
  void ReportLosses(const LossSink& sink) override;

 private:
  std::unique_ptr<Medium> medium_;
  Clock now_ns_;
  FaultyDirection sent_;
  FaultyDirection received_;
  FrameSink forward_;  ///< sends to the medium
};

}  // namespace softhca
