#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/config.hpp"

namespace softhca {

/// Environment variable that carries the serialized settings from the launcher to the preload library.
inline constexpr const char* kSettingsVariable = "SOFTHCA_SETTINGS";

/// Settings from the launcher's command line.
struct Settings {
  std::string tree;    ///< folder that stands in for /sys and /dev
  uint32_t block = 1;  ///< address block, see wire/address_block.hpp
  uint32_t devices = 1;
  uint32_t ports = 1;  ///< ports of each device
  mlx5::PortType link = mlx5::PortType::kEthernet;
  mlx5::Mtu mtu = mlx5::Mtu::k4096;
  std::vector<std::string> ports_down;  ///< "all", a device's name, or name/port
  bool gids = true;                     ///< whether the ports have GIDs
  bool atomics = true;
  bool host_order_atomics = true;
  bool user_index = true;
  bool wait = true;
  bool devx_events = false;
  uint32_t log_max_message = 30;
  int64_t first_key = -1;  ///< serial number of the first lkey and rkey of a process; -1: random
  std::vector<std::string> interfaces{};  ///< one for each port; none: loopback addresses
  std::string cable_local, cable_remote;  ///< Unix sockets of the cable; empty: none
  std::vector<std::string> addresses{};   ///< IP[/PREFIX] of the port at a cable
  bool raw_sockets = false;               ///< receive by raw sockets
  bool direct = true;                     ///< no packets between queue pairs of a process
  // Faults and observers. %p in a file name stands for the process number.
  std::vector<std::string> faults;
  bool stats = false;      ///< print counts at exit
  std::string stats_file;  ///< JSON file for the counts; empty: standard error
  std::string log;         ///< LEVEL or LEVEL,FILE; empty: none
  std::string pcap;        ///< file for captured frames; empty: none
  std::string trace;       ///< file for the trace of work requests; empty: none
  friend bool operator==(const Settings&, const Settings&) = default;
};

std::string Serialize(const Settings& settings);
/// @errors  std::exception: Serialize() did not make the text
Settings ParseSettings(const std::string& text);

/// Gives every device its name, GUID, MAC and GIDs. One block of addresses always gives the same ones.
///
/// @errors  std::exception: an interface is unusable, or `ports_down` names a device or port that does not
///          exist; a sentence
std::vector<DeviceConfig> MakeDevices(const Settings& settings);

/// Writes what a kernel with these devices shows below /sys, and their nodes in /dev, to the folder `root`.
///
/// The devices are below their PCI functions, with symbolic links in class/, so that programs find the PCI
/// address, the NUMA node and the network interface. Every interface that the tree names exists on the host:
/// the one of `--interface`, or "lo" for the loopback addresses; a cable has none.
///
/// Where NVIDIA's driver is loaded, the tree shows the module nvidia_peermem: softhca takes addresses of GPU
/// memory as a card does with that module, and programs such as NCCL and NVSHMEM look for it first.
///
/// @param modules  folder of the host's kernel modules
/// @errors  std::filesystem::filesystem_error
void BuildSysfsTree(const std::filesystem::path& root, const std::vector<DeviceConfig>& devices,
                    const std::filesystem::path& modules = "/sys/module");

}  // namespace softhca
