#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/board.hpp"
#include "common/fabric.hpp"
#include "machine/files.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gid.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::programs {

struct NicPort {
  host::Port port{};
  mlx5::Mtu max_mtu = mlx5::Mtu::k4096;
  std::string rate{};        ///< of the link, in words: "400 Gb/sec (4X NDR)"
  std::string interface {};  ///< the network interface behind it: "ens1np0"; "": none is known
  std::vector<host::GidEntry> gids{};
};

/// A ConnectX.
struct Nic {
  std::string name{};      ///< "mlx5_0"
  std::string function{};  ///< its folder, see pci.hpp; "": not known
  std::string board{};     ///< "MT_0000000838"
  uint32_t vendor_part = 0;
  int numa_node = -1;
  host::Capabilities capabilities{};
  std::vector<NicPort> ports{};
  std::string problem{};  ///< why it cannot be opened, then nothing is known of it; "": it can be
  std::string remedy{};

  bool usable() const { return problem.empty(); }
  bool is_software() const { return IsSoftwareBoard(board); }
};

/// A GPU, as its driver shows it.
struct GpuSeen {
  std::string name{};      ///< "cuda:0"
  std::string model{};     ///< "NVIDIA H200"
  std::string address{};   ///< "0000:41:00.0"
  std::string function{};  ///< its folder, see pci.hpp; "": not known
  int numa_node = -1;
  host::GpuAttributes attributes{};
  std::string problem{};  ///< why it cannot be opened; "": it can be
  std::string remedy{};

  bool usable() const { return problem.empty(); }
};

/// The hardware that this library could use.
struct Survey {
  std::vector<Nic> nics{};
  std::vector<GpuSeen> gpus{};
  std::string problem{};  ///< why there was no looking; "": there was
  std::string remedy{};
};

/// Opens every ConnectX and every GPU, and looks at each. Never throws.
///
/// @param device  of the NICs only that one; "": all
Survey LookAtHardware(const Files& files, const std::string& device);

/// Leaves those NICs and ports in a survey that may be used.
void Narrow(Survey& survey, const Fabric& fabric);

/// The port that a transfer takes by itself, with its GID: the first active one.
struct Choice {
  NicAndPort where{};
  int gid_index = -1;     ///< -1: there is none
  std::string problem{};  ///< why there is no port, or not the GID that is asked for; "": all is there
};
Choice ChooseFrom(const Survey& survey, const Fabric& fabric);

/// "mlx5_0 port 1"
std::string Name(const Nic& nic, const NicPort& port);

/// Splits an error into what is wrong and what to do, both without a full stop.
///
/// @param remedy  set to what the error advises; "" if it advises nothing
std::string Split(const std::exception& error, std::string& remedy);

}  // namespace warpverbs::programs
