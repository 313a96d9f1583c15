#include "endpoint/path.hpp"

#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "device/handle.hpp"
#include "log/shortage.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

std::string Name(const Device& device, const Port& port) {
  return "port " + std::to_string(port.number) + " of " + device.name();
}

/// Resolves the MAC address of the next hop. The kernel knows routes and neighbours.
std::array<uint8_t, 6> ResolveMac(const Device& device, const Path& path) {
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = path.port;
  attributes.sl = path.service_level;
  attributes.grh.sgid_index = static_cast<uint8_t>(path.gid_index);
  attributes.grh.hop_limit = path.hop_limit;
  attributes.grh.traffic_class = path.traffic_class;
  std::copy(path.peer_gid.raw.begin(), path.peer_gid.raw.end(), attributes.grh.dgid.raw);
  errno = 0;  // rdma-core refuses some addresses without setting it
  const Handle<ibv_ah, ibv_destroy_ah> handle(ibv_create_ah(device.pd(), &attributes));
  mlx5dv_ah details{};
  mlx5dv_obj object{};
  object.ah = {handle.get(), &details};
  int error = errno != 0 ? errno : EINVAL;
  if (handle) error = mlx5dv_init_obj(&object, MLX5DV_OBJ_AH);
  if (error != 0) {
    throw Error::FromErrno(
        "resolve", "the MAC address of " + ToString(path.peer_gid) + " from " + device.name(), error,
        IsShortage(error)
            ? "Free memory or files (`ulimit -n`), and try again"
            : "Check that the peer's address can be reached from this port (`ping -I DEV ADDRESS`)");
  }
  std::array<uint8_t, 6> mac;
  std::copy_n(details.av->rmac, mac.size(), mac.begin());
  return mac;
}

void CheckSameFabric(const Device& device, const LocalAddress& local, const EndpointInfo& peer) {
  if (peer.link_layer != local.port.link_layer) {
    throw Error("connect", Name(device, local.port),
                std::string("it is ") + ToString(local.port.link_layer) + " and the peer's is " +
                    ToString(peer.link_layer),
                "Choose ports with the same link layer");
  }
  if (peer.gid_type != local.gid.type) {
    throw Error("connect", Name(device, local.port),
                std::string("this side chose a ") + ToString(local.gid.type) + " GID and the peer a " +
                    ToString(peer.gid_type) + " one",
                "Set gid_index to GIDs of one type on both sides");
  }
}

}  // namespace

Path ResolvePath(const Device& device, const PathConfig& config, const LocalAddress& local,
                 uint32_t local_qpn, const EndpointInfo& peer) {
  CheckSameFabric(device, local, peer);
  Path path{.link_layer = local.port.link_layer,
            .port = local.port.number,
            .gid_index = local.gid.index,
            .mtu = std::min({local.port.active_mtu, peer.mtu, config.max_mtu}),
            .traffic_class = config.traffic_class,
            .service_level = config.service_level,
            .hop_limit = config.hop_limit,
            .peer_gid = peer.gid,
            .peer_lid = peer.lid};
  if (path.link_layer == LinkLayer::kInfiniBand) {
    constexpr size_t kSubnetPrefix = 8;
    path.grh =
        local.port.grh_required ||
        !std::equal(peer.gid.raw.begin(), peer.gid.raw.begin() + kSubnetPrefix, local.gid.gid.raw.begin());
    return path;
  }
  path.peer_mac = ResolveMac(device, path);
  if (local.gid.type == GidType::kRoceV2) {
    const Capabilities& capabilities = device.capabilities();
    path.udp_source_port = config.udp_source_port != 0
                               ? config.udp_source_port
                               : UdpSourcePort(local_qpn, peer.qpn, capabilities.min_udp_source_port,
                                               capabilities.max_udp_source_port);
  }
  return path;
}

uint16_t UdpSourcePort(uint32_t local_qpn, uint32_t peer_qpn, uint16_t lowest, uint16_t highest) {
  // Multiplying by an odd constant near 2^64/phi carries every bit of both numbers into the upper half.
  const uint64_t hash = (uint64_t{local_qpn} << 24 ^ peer_qpn) * 0x9e3779b97f4a7c15u;
  const uint32_t ports = highest - lowest + 1u;
  return static_cast<uint16_t>(lowest + (hash >> 32) % ports);
}

}  // namespace warpverbs::inline v0_2::host
