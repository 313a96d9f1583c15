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
  std::string tree;  ///< folder that stands in for /sys and /dev
  uint32_t devices = 1;
  uint32_t ports = 1;  ///< of each device
  mlx5::PortType link = mlx5::PortType::kEthernet;
  mlx5::Mtu mtu = mlx5::Mtu::k4096;
  std::vector<std::string> ports_down;  ///< "all", a device's name, or name/port
  bool atomics = true;
  bool host_order_atomics = true;
  bool user_index = true;
  bool wait = true;
  uint32_t log_max_message = 30;
  bool stats = false;    ///< count objects, and print the counts at exit
  bool verbose = false;  ///< print each refused command
};

std::string ToText(const Settings& settings);
/// @errors  std::exception: the text is not what ToText() made
Settings FromText(const std::string& text);

/// Gives every device its name, GUID, MAC and GIDs, the same ones each time.
///
/// @errors  std::invalid_argument: `ports_down` names a device or port that there is not; a sentence
std::vector<DeviceConfig> MakeDevices(const Settings& settings);

}  // namespace softhca
