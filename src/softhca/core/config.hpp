#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "warpverbs/mlx5/commands.hpp"

/// Configuration of a software HCA, fixed before it starts.
namespace softhca {

namespace mlx5 = warpverbs::mlx5;

using Gid = std::array<uint8_t, 16>;
using Mac = std::array<uint8_t, 6>;

struct GidEntry {
  Gid gid;
  mlx5::RoceVersion version;
};

struct PortConfig {
  bool up = true;
  uint16_t lid = 0;  ///< 0 on Ethernet
  Mac mac{};
  std::vector<GidEntry> gids{};
  std::string interface {};  ///< network interface of the host that has the GIDs' addresses; empty: none
};

struct DeviceConfig {
  std::string name{};  ///< "mlx5_0"
  uint64_t guid = 0;
  mlx5::PortType link = mlx5::PortType::kEthernet;
  mlx5::Mtu mtu = mlx5::Mtu::k4096;
  bool atomics = true;
  bool devx_events = false;       ///< DEVX event channels exist
  uint32_t log_max_message = 30;  ///< log2 of the longest message in bytes
  uint32_t first_key = 0;         ///< serial number of the first lkey and rkey
  // Capabilities as reported. The device implements all three whether or not it reports them.
  bool host_order_atomics = true;
  bool user_index = true;           ///< user index in completions
  bool wait = true;                 ///< WQEs that wait for another queue's completions
  std::vector<PortConfig> ports{};  ///< port 1 first
};

/// Returns the payload bytes of a full packet.
constexpr uint32_t MtuBytes(mlx5::Mtu mtu) { return 128u << static_cast<uint32_t>(mtu); }

}  // namespace softhca
