#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "machine/files.hpp"
#include "warpverbs/host/topology.hpp"

/// What /sys tells about PCI functions. A function is named by its folder there:
/// "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0".
namespace warpverbs::programs {

/// The folder of a function; "" if there is none.
///
/// @param address  "0000:3b:00.0"
std::string PciFunction(const Files& files, const std::string& address);

/// "0000:3b:00.0" of a function's folder; "" if it is none.
std::string PciAddress(const std::string& function);

/// The folders of the bridges from a function up to its root port.
std::vector<std::string> BridgesAbove(const std::string& function);

/// The NUMA node; -1: the machine has none, or does not tell.
int NumaNode(const Files& files, const std::string& function);

/// How far two functions are apart, by their folders.
host::PciDistance Distance(const Files& files, const std::string& a, const std::string& b);

/// The addresses of all functions of a vendor and a class.
///
/// @param vendor        as PCI numbers it: 0x10de
/// @param device_class  its upper byte: 0x03 of displays, and so of GPUs
std::vector<std::string> FindFunctions(const Files& files, uint16_t vendor, uint8_t device_class);

/// A link's speed and width.
struct PciLink {
  double gigatransfers = 0;  ///< a second, of each lane
  int lanes = 0;
  std::string text{};  ///< "32.0 GT/s x16"
};

/// A function's link as it is ("current"), or as the function could have it ("max"); empty: not told.
std::optional<PciLink> ReadPciLink(const Files& files, const std::string& function, const std::string& which);

/// Access Control Services of a bridge.
struct AcsReading {
  bool readable = false;              ///< only root sees the extended configuration space
  std::optional<uint16_t> control{};  ///< the control register; empty: the bridge has none
};

/// Bits of the control register that keep GPU and NIC from reaching each other directly.
///
/// @source  PCI Express Base Specification 5.0, 7.7.8.3: P2P request redirect, P2P completion redirect, P2P
///          egress control
inline constexpr uint16_t kAcsRedirects = 1u << 2 | 1u << 3 | 1u << 5;

/// Finds the control register in a configuration space.
///
/// @param config  of up to 4096 bytes, little-endian
/// @source  PCI Express Base Specification 5.0, 7.6.3 (extended capability header) and 7.7.8 (ACS, 0x000D)
AcsReading FindAcs(std::span<const uint8_t> config);

AcsReading ReadAcs(const Files& files, const std::string& function);

}  // namespace warpverbs::programs
