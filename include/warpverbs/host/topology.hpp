#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "warpverbs/host/pci.hpp"
#include "warpverbs/host/port.hpp"

namespace warpverbs::host {

/// A port of an RDMA device, as sysfs shows it.
struct NicPort {
  uint8_t number = 0;  ///< from 1
  bool active = false;
  std::string state{};  ///< in words: "active", "down"; "unknown" if it cannot be read
  LinkLayer link_layer = LinkLayer::kEthernet;
  double rate_gbps = 0;  ///< 0 if it cannot be read; without a link some drivers tell a made-up one
};

/// An RDMA device of this machine.
struct Nic {
  std::string name{};                ///< "mlx5_0", as in DeviceNames(); it may be another after a reboot
  std::optional<PciFunction> pci{};  ///< the function it is or is part of; empty where there is none
  bool connectx = false;             ///< of the driver mlx5, which is what this library can use
  std::vector<NicPort> ports{};      ///< by number
};

/// The GPUs and the RDMA devices of a machine, and where they are: the same for every process, as no setting
/// of a driver has a say, nor has CUDA_VISIBLE_DEVICES.
struct Topology {
  std::vector<PciFunction> gpus;  ///< by address
  std::vector<Nic> nics;          ///< by address, those without one last and by name
};

/// Reads the machine's topology. Needs no driver of a GPU. What vanishes meanwhile is left out.
///
/// @param sysfs  the folder that is /sys
Topology ReadTopology(const std::filesystem::path& sysfs = "/sys");

/// Whether a PCI function is a GPU: of NVIDIA a VGA or 3D controller, of AMD an accelerator, or a 3D or
/// display controller.
///
/// @source  PCI Code and ID Assignment Specification 1.11, sections 1.4 and 1.19
bool IsGpu(const PciFunction& function);

/// How far a NIC is from a GPU; unknown without a PCI function.
PciDistance Distance(const PciFunction& gpu, const Nic& nic);

/// Draws a table like that of `nvidia-smi topo -m`, with what the names mean below.
std::string Describe(const Topology& topology);

}  // namespace warpverbs::host
