#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warpverbs::host {

/// Where a PCI function is. Unlike a device's name it is the same whatever was loaded first.
struct PciAddress {
  uint32_t domain = 0;
  uint8_t bus = 0;
  uint8_t device = 0;    ///< 0..31
  uint8_t function = 0;  ///< 0..7
  friend auto operator<=>(const PciAddress&, const PciAddress&) = default;

  /// @param text  "0000:41:00.0", "00000000:41:00.0" as nvidia-smi writes it, or "41:00.0" in domain 0;
  /// hexadecimal,
  ///              in either case
  /// @errors  Error: it is none of these
  static PciAddress FromText(std::string_view text);

  /// As FromText(), but empty where that throws.
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
/// @source  the legend of `nvidia-smi topo -m`, and nvmlGpuTopologyLevel_t of the NVML API reference, which
/// says
///          "switch" where the legend says "bridge"
enum class PciDistance : uint8_t {
  kSelf,     ///< "X": one function
  kPix,      ///< below a common bridge, with at most one more bridge above each: a bus, or one switch
  kPxb,      ///< below a common bridge, with more bridges above either: several switches, but no host bridge
  kPhb,      ///< under one host bridge, without a common bridge: through a root complex
  kNode,     ///< under several host bridges of one NUMA node
  kSystem,   ///< "SYS": on different NUMA nodes
  kUnknown,  ///< "?": under several host bridges, or nowhere, and of either the NUMA node is unknown
};

PciDistance Distance(const PciFunction& a, const PciFunction& b);

/// Reads where a function is and what it is; what cannot be read stays as it is by default.
///
/// @param sysfs  the folder that is /sys
/// @return  empty if there is no such function
std::optional<PciFunction> ReadPciFunction(const std::filesystem::path& sysfs, const PciAddress& address);

/// Lists what PCI functions there are, by address. Empty on a machine without PCI.
std::vector<PciAddress> PciAddresses(const std::filesystem::path& sysfs);

std::string ToString(const PciAddress& address);  ///< "0000:41:00.0"
const char* ToString(PciDistance distance);       ///< "PIX"
const char* Describe(PciDistance distance);       ///< in words: "through at most one PCIe switch"

}  // namespace warpverbs::host
