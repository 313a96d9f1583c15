#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint_info.hpp"

namespace warpverbs::host {

/// What the user may say about the way to the peer.
struct PathConfig {
  uint8_t traffic_class = 0;  ///< its upper six bits are the DSCP
  uint8_t service_level = 0;  ///< 0..7 on Ethernet, where it is the priority; 0..15 on InfiniBand
  uint8_t hop_limit = 64;
  mlx5::Mtu max_mtu = mlx5::Mtu::k4096;  ///< the path's is the least of this and both ports'
  uint16_t udp_source_port = 0;          ///< of RoCE v2: routers choose by it among equal paths. 0: hashed
};

/// The way to one peer, as a queue pair needs it.
struct Path {
  LinkLayer link_layer = LinkLayer::kEthernet;
  uint8_t port = 1;
  uint32_t gid_index = 0;
  mlx5::Mtu mtu = mlx5::Mtu::k1024;
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
  uint8_t hop_limit = 64;
  bool grh = false;  ///< InfiniBand only: the packets carry GIDs
  Gid peer_gid{};
  uint16_t peer_lid = 0;              ///< InfiniBand
  std::array<uint8_t, 6> peer_mac{};  ///< Ethernet: the peer's, or the next router's
  uint16_t udp_source_port = 0;       ///< RoCE v2
};

/// Where this side sends from.
struct LocalAddress {
  Port port;
  GidEntry gid;
};

/// Chooses the port and the GID to send from.
///
/// @param port       0: the first active one
/// @param gid_index  -1: the best by BestGid()
/// @param peer       for which it is to be the best; empty: for any
/// @errors  Error: the port is not active, or has no such GID or none at all
LocalAddress ChooseAddress(const Device& device, uint8_t port, int gid_index,
                           const std::optional<Gid>& peer = {});

/// Finds the way from a queue pair to its peer.
///
/// @errors  Error: the sides cannot reach each other, or the kernel cannot resolve the peer's MAC address
Path ResolvePath(const Device& device, const PathConfig& config, const LocalAddress& local,
                 uint32_t local_qpn, const EndpointInfo& peer);

/// Picks a queue pair's UDP source port: spread over the range, so that routers spread queue pairs over equal
/// paths, and the same whenever the same two queue pairs connect.
uint16_t UdpSourcePort(uint32_t local_qpn, uint32_t peer_qpn, uint16_t lowest, uint16_t highest);

}  // namespace warpverbs::host
