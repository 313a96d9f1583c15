#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config.hpp"

namespace softhca {

/// Name of the environment variable by which the launcher tells the preload library what to be.
inline constexpr const char* kSettingsVariable = "SOFTHCA_SETTINGS";

/// What the user asked for on the launcher's command line.
struct Settings {
  std::string tree;    ///< folder that stands in for /sys and /dev
  uint32_t block = 1;  ///< of addresses, see wire/address_block.hpp
  uint32_t devices = 1;
  uint32_t ports = 1;  ///< of each device
  mlx5::PortType link = mlx5::PortType::kEthernet;
  mlx5::Mtu mtu = mlx5::Mtu::k4096;
  std::vector<std::string> ports_down;  ///< "all", a device's name, or name/port
  bool gids = true;                     ///< on the ports
  bool atomics = true;
  bool host_order_atomics = true;
  bool user_index = true;
  bool wait = true;
  bool devx_events = false;
  uint32_t log_max_message = 30;
  std::vector<std::string> interfaces{};  ///< one for each port; none: loopback addresses of its own
  std::string cable_local, cable_remote;  ///< Unix sockets of a cable; empty: none
  std::vector<std::string> addresses{};   ///< IP[/PREFIX] of the port at a cable
  bool raw_sockets = false;               ///< for receiving
  bool direct = true;                     ///< connections within a process do without packets
  // What to do to the network, and what to tell of it. In a file's name, %p is the process's number.
  std::vector<std::string> faults;
  bool stats = false;      ///< count, and print the counts at exit
  std::string stats_file;  ///< as JSON; empty: none
  std::string log;         ///< LEVEL or LEVEL,FILE; empty: none
  std::string pcap;        ///< file for the frames; empty: none
  std::string trace;       ///< file for the life of each work request; empty: none
  friend bool operator==(const Settings&, const Settings&) = default;
};

std::string ToText(const Settings& settings);
/// @errors  std::exception: the text is not what ToText() made
Settings FromText(const std::string& text);

/// Gives every device its name, GUID, MAC and GIDs, the same ones for the same block of addresses.
///
/// @errors  std::exception: an interface cannot be used, or `ports_down` names a device or port that there is
/// not; a sentence
std::vector<DeviceConfig> MakeDevices(const Settings& settings);

}  // namespace softhca
