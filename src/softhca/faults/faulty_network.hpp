#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/hca.hpp"
#include "core/network.hpp"
#include "faults/fault_plan.hpp"

namespace softhca {

/// Wraps a network and injects the faults that do not concern frames: links go down and up, WQEs fail, the
/// process is killed.
class FaultyNetwork : public Network {
 public:
  /// @param start_ns  origin of the plan's times
  /// @param kill      ends the process
  FaultyNetwork(std::unique_ptr<Network> network, FaultPlan plan, const std::vector<Hca*>& devices,
                uint64_t start_ns, std::function<void()> kill);

  void OnTransition(QueuePair& qp) override { network_->OnTransition(qp); }
  void FinishDatagrams(QueuePair& qp) override { network_->FinishDatagrams(qp); }
  void OnGroups() override { network_->OnGroups(); }
  bool Run(QueuePair& qp, uint64_t now_ns) override;
  bool Poll(uint64_t now_ns) override;
  uint64_t NextNs() const override;
  void OnStall(uint64_t ns) override { network_->OnStall(ns); }
  bool HasUnsent() const override { return network_->HasUnsent(); }
  bool Listens() const override { return network_->Listens(); }
  void Wait(uint64_t limit_ns) override { network_->Wait(limit_ns); }

 private:
  bool RunDue(uint64_t now_ns);
  void ScheduleLink(const LinkFault& fault, const std::vector<Hca*>& devices, uint64_t start_ns);

  std::unique_ptr<Network> network_;
  FaultPlan plan_;
  std::multimap<uint64_t, std::function<void()>> incidents_;  ///< pending incidents by due time
  std::set<std::pair<const Hca*, uint32_t>> marked_;  ///< queue pairs that already have their forced failures
};

}  // namespace softhca
