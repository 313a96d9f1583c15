#include "wire/address_table.hpp"

#include <algorithm>

#include "wire/address_block.hpp"

namespace softhca {
namespace {

constexpr uint8_t kDefaultHopLimit = 64;

/// Returns the first port for which `matches` holds.
template <class Predicate>
std::optional<Port> FindPort(const std::vector<Hca*>& devices, Predicate matches) {
  for (Hca* hca : devices) {
    const auto& ports = hca->config().ports;
    const auto found = std::find_if(ports.begin(), ports.end(), matches);
    if (found != ports.end()) return Port{hca, static_cast<uint8_t>(found - ports.begin() + 1)};
  }
  return std::nullopt;
}

bool HasGid(const PortConfig& port, const Gid& gid) {
  return std::any_of(port.gids.begin(), port.gids.end(),
                     [&](const GidEntry& entry) { return entry.gid == gid; });
}

/// Returns whether frames of a flow are for a port, by the flow's GIDs.
bool Receives(const PortConfig& port, const Flow& flow) {
  return std::any_of(port.gids.begin(), port.gids.end(), [&](const GidEntry& entry) {
    return entry.gid == flow.destination && entry.version == flow.version;
  });
}

}  // namespace

std::optional<Port> AddressTable::Find(const Gid& gid) const {
  return FindPort(devices_, [&](const PortConfig& port) { return HasGid(port, gid); });
}

std::optional<Port> AddressTable::Find(const AddressPath& path) const {
  if (link() == mlx5::PortType::kEthernet) return Find(path.remote_gid);
  return FindPort(devices_, [&](const PortConfig& port) { return port.lid == path.remote_lid; });
}

std::optional<Port> AddressTable::FindReceiver(const Flow& flow) const {
  return FindPort(devices_, [&](const PortConfig& port) {
    return (!flow.local || flow.local->destination == port.lid) && (!flow.grh || Receives(port, flow));
  });
}

const GidEntry* AddressTable::LocalGid(const Port& from, const AddressPath& path) {
  const std::vector<GidEntry>& gids = from.config().gids;
  const size_t index = path.grh ? path.local_gid_index : 0;
  return index < gids.size() ? &gids[index] : nullptr;
}

std::optional<Flow> AddressTable::FlowOf(const Port& from, const AddressPath& path) const {
  const GidEntry* const local = LocalGid(from, path);
  if (local == nullptr) return std::nullopt;
  Flow flow{.source = local->gid,
            .destination = path.remote_gid,
            .version = local->version,
            .traffic_class = path.traffic_class,
            .hop_limit = path.hop_limit != 0 ? path.hop_limit : kDefaultHopLimit,
            .flow_label = path.flow_label,
            .source_port = path.udp_source_port};
  if (link() == mlx5::PortType::kInfiniBand) {
    if (path.remote_lid == 0) return std::nullopt;
    constexpr uint8_t kLevels = 16;
    flow.local = LocalRoute{.source = from.config().lid,
                            .destination = path.remote_lid,
                            .service_level = static_cast<uint8_t>(path.service_level % kLevels)};
    flow.grh = path.grh;
    return flow;
  }
  const std::optional<Port> own = Find(path.remote_gid);
  flow.source_mac = from.config().mac;
  flow.destination_mac = own ? own->config().mac : path.remote_mac;
  return flow;
}

Mac GuessMac(const Gid& gid) {
  constexpr uint8_t kLocallyAdministered = 2;
  if (IsMulticast(gid) && IsIpv4(gid))
    return {1, 0, 0x5e, static_cast<uint8_t>(gid[13] & 0x7f), gid[14], gid[15]};
  if (IsMulticast(gid)) return {0x33, 0x33, gid[12], gid[13], gid[14], gid[15]};
  if (const auto mac = address_block::MacOf(gid)) return *mac;
  if (gid[11] == 0xff && gid[12] == 0xfe) {
    const auto first = static_cast<uint8_t>(gid[8] ^ kLocallyAdministered);
    return {first, gid[9], gid[10], gid[13], gid[14], gid[15]};
  }
  return {kLocallyAdministered, 0, gid[12], gid[13], gid[14], gid[15]};
}

std::vector<Mac> MacsOf(const std::vector<Hca*>& devices) {
  std::vector<Mac> macs;
  for (const Hca* hca : devices) {
    for (const PortConfig& port : hca->config().ports) macs.push_back(port.mac);
  }
  return macs;
}

}  // namespace softhca
