#pragma once

#include <string>
#include <utility>
#include <vector>

#include "machine/machine.hpp"

/// The subjects of checks, and the reasons for SKIP where there are none.
namespace warpverbs::programs {

inline constexpr char kNoNic[] = "no ConnectX opens";
inline constexpr char kNoGpu[] = "the NVIDIA driver shows no GPU";

inline std::vector<const NicInfo*> UsableNics(const Machine& machine) {
  std::vector<const NicInfo*> nics;
  for (const NicInfo& nic : machine.survey.nics)
    if (nic.usable()) nics.push_back(&nic);
  return nics;
}

inline std::vector<const GpuInfo*> UsableGpus(const Machine& machine) {
  std::vector<const GpuInfo*> gpus;
  for (const GpuInfo& gpu : machine.survey.gpus)
    if (gpu.usable()) gpus.push_back(&gpu);
  return gpus;
}

/// Returns the active ports, each with its NIC.
inline std::vector<std::pair<const NicInfo*, const PortInfo*>> ActivePorts(const Machine& machine) {
  std::vector<std::pair<const NicInfo*, const PortInfo*>> ports;
  for (const NicInfo* const nic : UsableNics(machine))
    for (const PortInfo& port : nic->ports)
      if (port.port.active) ports.emplace_back(nic, &port);
  return ports;
}

/// Returns why ActivePorts() is empty.
inline std::string NoPort(const Machine& machine) {
  return UsableNics(machine).empty() ? kNoNic : "no port is active";
}

}  // namespace warpverbs::programs
