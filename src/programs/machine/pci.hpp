#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "machine/files.hpp"
#include "warpverbs/host/topology.hpp"

/// PCI functions as /sys describes them. A function is identified by its folder:
/// "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0".
namespace warpverbs::programs {

/// Returns the folder of a function; "" if it does not exist.
///
/// @param address  "0000:3b:00.0"
std::string PciFolder(const Files& files, const std::string& address);

/// Returns the address in a function's folder, "0000:3b:00.0"; "" for any other path.
std::string PciAddressOf(const std::string& function);

/// Returns the folders of the bridges from a function up to its root port.
std::vector<std::string> BridgesAbove(const std::string& function);

/// Returns the NUMA node; -1 if it is unknown.
int NumaNode(const Files& files, const std::string& function);

/// Returns the distance between two functions.
host::PciDistance Distance(const Files& files, const std::string& a, const std::string& b);

/// Returns the addresses of all functions of a vendor and a class.
///
/// @param vendor        PCI vendor ID: 0x10de
/// @param device_class  upper byte of the class: 0x03 for displays, which include GPUs
std::vector<std::string> FindFunctions(const Files& files, uint16_t vendor, uint8_t device_class);

/// The speed and width of a PCIe link.
struct PciLink {
  double gigatransfers = 0;  ///< gigatransfers per second and lane
  int lanes = 0;
  std::string text{};  ///< "32.0 GT/s x16"
};

/// Reads the "current" or the "max" link of a function; empty if the kernel does not report it.
std::optional<PciLink> ReadPciLink(const Files& files, const std::string& function, const std::string& which);

/// The state of Access Control Services of a bridge.
struct AcsState {
  bool readable = false;              ///< false: only root can read the extended configuration space
  std::optional<uint16_t> control{};  ///< the control register; empty if the bridge has no ACS
};

/// Bits of the control register that redirect traffic between a GPU and a NIC to the root complex.
///
/// @source  PCI Express Base Specification 5.0, 7.7.8.3: P2P request redirect, P2P completion redirect, P2P
///          egress control
inline constexpr uint16_t kAcsRedirects = 1u << 2 | 1u << 3 | 1u << 5;

/// Finds the control register in a configuration space.
///
/// @param config  up to 4096 bytes, little-endian
/// @source  PCI Express Base Specification 5.0, 7.6.3 (extended capability header) and 7.7.8 (ACS, 0x000D)
AcsState FindAcs(std::span<const uint8_t> config);

AcsState ReadAcs(const Files& files, const std::string& function);

}  // namespace warpverbs::programs
