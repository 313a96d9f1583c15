#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/device_selection.hpp"
#include "machine/files.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gid.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::programs {

/// A port of a NIC.
struct PortInfo {
  host::Port port{};
  mlx5::Mtu max_mtu = mlx5::Mtu::k4096;
  std::string rate{};        ///< speed of the link: "400 Gb/sec (4X NDR)"
  std::string interface {};  ///< its network interface: "ens1np0"; "": unknown
  std::vector<host::GidEntry> gids{};
};

/// A ConnectX.
struct NicInfo {
  std::string name{};      ///< "mlx5_0"
  std::string function{};  ///< its folder, see pci.hpp; "": unknown
  std::string board{};     ///< "MT_0000000838"
  uint32_t vendor_part = 0;
  int numa_node = -1;
  host::Capabilities capabilities{};
  std::vector<PortInfo> ports{};
  std::string problem{};  ///< why it does not open, then the rest is unknown; "": it opens
  std::string remedy{};

  bool usable() const { return problem.empty(); }
  bool is_software() const { return IsSoftwareBoard(board); }
};

/// A GPU as its driver describes it.
struct GpuInfo {
  std::string name{};      ///< "cuda:0"
  std::string model{};     ///< "NVIDIA H200"
  std::string address{};   ///< "0000:41:00.0"
  std::string function{};  ///< its folder, see pci.hpp; "": unknown
  int numa_node = -1;
  host::GpuAttributes attributes{};
  std::string problem{};  ///< why it does not open; "": it opens
  std::string remedy{};

  bool usable() const { return problem.empty(); }
};

/// The hardware that the library can use.
struct Survey {
  std::vector<NicInfo> nics{};
  std::vector<GpuInfo> gpus{};
  std::string problem{};  ///< why the survey failed; "": it did not
  std::string remedy{};
};

/// Opens and inspects every ConnectX and every GPU. Never throws.
///
/// @param device  the only NIC to inspect; "": all
Survey SurveyHardware(const Files& files, const std::string& device);

/// Removes the NICs and ports that a selection does not allow.
void Restrict(Survey& survey, const DeviceSelection& selection);

/// The port and GID that a transfer uses by default: the first active port.
struct PortChoice {
  NicAndPort where{};
  int gid_index = -1;     ///< -1: the port has none
  std::string problem{};  ///< why no port is available, or not the requested GID; "": both are
};
PortChoice ChoosePort(const Survey& survey, const DeviceSelection& selection);

/// Returns "mlx5_0 port 1".
std::string PortName(const NicInfo& nic, const PortInfo& port);

/// Splits an error into the fault, which is returned, and the remedy, both without a full stop.
///
/// @param remedy  set to the remedy; "" if there is none
std::string SplitRemedy(const std::exception& error, std::string& remedy);

}  // namespace warpverbs::programs
