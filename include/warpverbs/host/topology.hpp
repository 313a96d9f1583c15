#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warpverbs/host/gid.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// Where a PCI function is. Unlike a device's name it is the same whatever was loaded first.
struct WARPVERBS_EXPORT PciAddress {
  uint32_t domain = 0;
  uint8_t bus = 0;
  uint8_t device = 0;    ///< 0..31
  uint8_t function = 0;  ///< 0..7
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes what <=> compares with for a pointer
  friend auto operator<=>(const PciAddress&, const PciAddress&) = default;

  /// @param text  in upper or lower case: "0000:41:00.0", "00000000:41:00.0" as nvidia-smi writes it, or
  ///              "41:00.0" in domain 0
  /// @errors  Error: it is none of these
  static PciAddress Parse(std::string_view text);

  /// Parses like Parse(), but returns empty where that throws.
  static std::optional<PciAddress> Find(std::string_view text);
};

/// A PCI function, and what lies between it and the processor.
struct PciFunction {
  PciAddress address{};
  uint16_t vendor = 0;                ///< 0 if it cannot be read
  uint16_t class_code = 0;            ///< base class and subclass: 0x0302; 0 if it cannot be read
  int numa_node = -1;                 ///< -1: unknown
  std::string host_bridge{};          ///< "pci0000:40", as the kernel calls a root complex
  std::vector<PciAddress> bridges{};  ///< from the root port down to the bridge above the function
};

/// How far two PCI functions are apart, the nearest first.
///
/// A switch is a bridge for its upstream port and one below it for each downstream port.
///
/// @source  the legend of `nvidia-smi topo -m`, and nvmlGpuTopologyLevel_t of the NVML API reference, where
///          "switch" means the legend's "bridge"
enum class PciDistance : uint8_t {
  kSelf,     ///< "X": one function
  kPix,      ///< below a common bridge, with at most one more bridge above each: a bus, or one switch
  kPxb,      ///< below a common bridge, with more bridges above either: several switches, but no host bridge
  kPhb,      ///< under one host bridge, without a common bridge: through a root complex
  kNode,     ///< under several host bridges of one NUMA node
  kSystem,   ///< "SYS": on different NUMA nodes
  kUnknown,  ///< "?": under several host bridges, or nowhere, and of either the NUMA node is unknown
};

WARPVERBS_EXPORT PciDistance Distance(const PciFunction& a, const PciFunction& b);

/// Reads where a function is and what it is; what cannot be read stays as it is by default.
///
/// @param sysfs  the folder that is /sys
/// @return  empty if the function does not exist
WARPVERBS_EXPORT std::optional<PciFunction> ReadPciFunction(const std::filesystem::path& sysfs,
                                                            const PciAddress& address);

/// Lists what PCI functions there are, by address. Empty on a machine without PCI.
WARPVERBS_EXPORT std::vector<PciAddress> PciAddresses(const std::filesystem::path& sysfs);

WARPVERBS_EXPORT std::string ToString(const PciAddress& address);  ///< "0000:41:00.0"
WARPVERBS_EXPORT const char* ToString(PciDistance distance);       ///< "PIX"
WARPVERBS_EXPORT const char* Describe(PciDistance distance);  ///< in words: "through at most one PCIe switch"

/// A port of an RDMA device, as sysfs shows it.
struct NicPort {
  uint8_t number = 0;  ///< from 1
  bool active = false;
  std::string state{};  ///< in words: "active", "down"; "unknown" if it cannot be read
  LinkLayer link_layer = LinkLayer::kEthernet;
  double rate_gbps = 0;  ///< 0 if it cannot be read; without a link some drivers tell a made-up one
};

/// An RDMA device of this machine.
struct WARPVERBS_EXPORT Nic {
  std::string name{};                ///< "mlx5_0", as in DeviceNames(); it may be another after a reboot
  std::optional<PciFunction> pci{};  ///< the function it is or is part of; empty where there is none
  bool connectx = false;             ///< driven by mlx5, so usable by this library
  std::vector<NicPort> ports{};      ///< sorted by number
};

/// The GPUs and the RDMA devices of a machine, and where they are: the same for every process, as no setting
/// of a driver has a say, nor has CUDA_VISIBLE_DEVICES.
struct Topology {
  std::vector<PciFunction> gpus;  ///< sorted by address
  std::vector<Nic> nics;          ///< sorted by address; those without one last, sorted by name
};

/// Reads the machine's topology. Needs no driver of a GPU. What vanishes meanwhile is left out.
///
/// @param sysfs  the folder that is /sys
WARPVERBS_EXPORT Topology ReadTopology(const std::filesystem::path& sysfs = "/sys");

/// Whether a PCI function is a GPU: of NVIDIA a VGA or 3D controller, of AMD an accelerator, or a 3D or
/// display controller.
///
/// @source  PCI Code and ID Assignment Specification 1.11, sections 1.4 and 1.19
WARPVERBS_EXPORT bool IsGpu(const PciFunction& function);

/// How far a NIC is from a GPU; unknown without a PCI function.
WARPVERBS_EXPORT PciDistance Distance(const PciFunction& gpu, const Nic& nic);

/// Draws a table like that of `nvidia-smi topo -m`, with what the names mean below.
WARPVERBS_EXPORT std::string Describe(const Topology& topology);

/// Constraints on the assignment of NICs.
struct NicAssignmentConfig {
  uint32_t nics_per_gpu = 1;  ///< each GPU gets as many as there are, at most these
  std::function<bool(const Nic&, const NicPort&)> may_use = {};  ///< empty: any port of any ConnectX
};

/// A NIC that a GPU shall use.
struct NicChoice {
  std::string name{};  ///< name for Device()
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
WARPVERBS_EXPORT std::vector<GpuNics> AssignNics(const Topology& topology, std::span<const PciAddress> gpus,
                                                 const NicAssignmentConfig& config = {});

/// The same for all GPUs of the topology.
///
/// @errors  Error, as above
WARPVERBS_EXPORT std::vector<GpuNics> AssignNics(const Topology& topology,
                                                 const NicAssignmentConfig& config = {});

/// One line for each NIC of each GPU.
WARPVERBS_EXPORT std::string Describe(std::span<const GpuNics> assignment);

}  // namespace warpverbs::inline v0_2::host
