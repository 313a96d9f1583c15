#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "warpverbs/host/topology.hpp"

namespace warpverbs::host {

/// What the user may say about who gets which NIC.
struct NicAssignmentConfig {
  uint32_t nics_per_gpu = 1;  ///< each GPU gets as many as there are, at most these
  std::function<bool(const Nic&, const NicPort&)> may_use = {};  ///< empty: any port of any ConnectX
};

/// A NIC that a GPU shall use.
struct NicChoice {
  std::string name{};  ///< what Device() takes
  uint8_t port = 0;    ///< the first active one that may be used; what EndpointConfig::port takes
  PciDistance distance = PciDistance::kUnknown;
  uint32_t gpus = 0;     ///< how many share the NIC, this GPU included
  std::string reason{};  ///< one sentence
};

/// The NICs of one GPU, the nearest first.
struct GpuNics {
  PciAddress gpu{};
  std::vector<NicChoice> nics{};
};

/// Shares the NICs of a machine out to its GPUs: each GPU the nearest, and among equally near ones as evenly
/// as can be.
///
/// Nearness goes before evenness, as a NIC further away is slower and often on another network. Of equally
/// near NICs those with less than half the rate of the fastest are left out: half a fast NIC is more. Left
/// out are also NICs without an active port. The result depends on addresses alone, not on names or the order
/// of anything, so that all processes of a machine compute the same and machines that are alike pair like
/// GPUs with like NICs.
///
/// @param gpus  all GPUs of the machine that take part, not only those that this process sees; each once
/// @return  by the address of the GPU
/// @errors  Error: no NIC can be used, and says why of each; a GPU is named twice; nics_per_gpu is 0
std::vector<GpuNics> AssignNics(const Topology& topology, std::span<const PciAddress> gpus,
                                const NicAssignmentConfig& config = {});

/// The same for all GPUs of the topology.
///
/// @errors  Error, as above
std::vector<GpuNics> AssignNics(const Topology& topology, const NicAssignmentConfig& config = {});

/// One line for each NIC of each GPU.
std::string Describe(std::span<const GpuNics> assignment);

}  // namespace warpverbs::host
