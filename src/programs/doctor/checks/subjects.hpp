#pragma once

#include <string>
#include <utility>
#include <vector>

#include "machine/machine.hpp"

/// What checks look at, and what they say where it is not there.
namespace warpverbs::programs {

inline constexpr char kNoNic[] = "no ConnectX can be opened";
inline constexpr char kNoGpu[] = "no GPU is seen through an NVIDIA driver";

inline std::vector<const Nic*> UsableNics(const Machine& machine) {
  std::vector<const Nic*> nics;
  for (const Nic& nic : machine.survey.nics)
    if (nic.usable()) nics.push_back(&nic);
  return nics;
}

inline std::vector<const GpuSeen*> UsableGpus(const Machine& machine) {
  std::vector<const GpuSeen*> gpus;
  for (const GpuSeen& gpu : machine.survey.gpus)
    if (gpu.usable()) gpus.push_back(&gpu);
  return gpus;
}

/// The ports that can carry traffic, each with its NIC.
inline std::vector<std::pair<const Nic*, const NicPort*>> ActivePorts(const Machine& machine) {
  std::vector<std::pair<const Nic*, const NicPort*>> ports;
  for (const Nic* const nic : UsableNics(machine))
    for (const NicPort& port : nic->ports)
      if (port.port.active) ports.emplace_back(nic, &port);
  return ports;
}

/// Why ActivePorts() has none.
inline std::string NoPort(const Machine& machine) {
  return UsableNics(machine).empty() ? kNoNic : "no port is active";
}

}  // namespace warpverbs::programs
