#pragma once

#include <cstdint>
#include <string>

#include "warpverbs/mlx5/commands.hpp"

namespace warpverbs::host {

enum class LinkLayer : uint8_t { kInfiniBand = 1, kEthernet = 2 };

/// A port of a device, as it was when queried.
struct Port {
  uint8_t number = 0;  ///< from 1
  bool active = false;
  std::string state;  ///< in words: "active", "down", "armed"
  LinkLayer link_layer = LinkLayer::kEthernet;
  mlx5::Mtu active_mtu = mlx5::Mtu::k1024;
  uint16_t lid = 0;  ///< 0 on Ethernet
  bool grh_required = false;
  uint32_t gid_table_size = 0;
  uint32_t pkey_table_size = 0;
  uint32_t max_message_bytes = 0;
};

constexpr uint32_t Bytes(mlx5::Mtu mtu) { return 128u << static_cast<uint32_t>(mtu); }
const char* ToString(LinkLayer link_layer);

}  // namespace warpverbs::host
