#pragma once

#include <array>
#include <cstdint>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/endpoint_info.hpp"

namespace warpverbs::inline v0_2::host {

/// The path to one peer, as a queue pair needs it.
struct Path {
  LinkLayer link_layer = LinkLayer::kEthernet;
  uint8_t port = 1;
  uint32_t gid_index = 0;
  mlx5::Mtu mtu = mlx5::Mtu::k1024;
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
  uint8_t hop_limit = 64;
  bool grh = false;  ///< InfiniBand: whether packets carry GIDs
  Gid peer_gid{};
  uint16_t peer_lid = 0;              ///< InfiniBand
  std::array<uint8_t, 6> peer_mac{};  ///< Ethernet: MAC of the peer or of the next router
  uint16_t udp_source_port = 0;       ///< RoCE v2
};

/// Resolves the path from a queue pair to its peer.
///
/// @errors  Error: the sides cannot reach each other, or the kernel cannot resolve the peer's MAC address
Path ResolvePath(const Device& device, const PathConfig& config, const LocalAddress& local,
                 uint32_t local_qpn, const EndpointInfo& peer);

/// Derives a queue pair's UDP source port from both QP numbers: the same two always get the same port.
///
/// Ports spread over the range, so that routers spread queue pairs over equal paths.
uint16_t UdpSourcePort(uint32_t local_qpn, uint32_t peer_qpn, uint16_t lowest, uint16_t highest);

}  // namespace warpverbs::inline v0_2::host
