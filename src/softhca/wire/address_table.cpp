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

}  // namespace

std::optional<Port> AddressTable::Find(const Gid& gid) const {
  return FindPort(devices_, [&](const PortConfig& port) {
    return std::any_of(port.gids.begin(), port.gids.end(),
                       [&](const GidEntry& entry) { return entry.gid == gid; });
  });
}

std::optional<Port> AddressTable::Find(const Gid& gid, mlx5::RoceVersion version) const {
  return FindPort(devices_, [&](const PortConfig& port) {
    return std::any_of(port.gids.begin(), port.gids.end(),
                       [&](const GidEntry& entry) { return entry.gid == gid && entry.version == version; });
  });
}

const GidEntry* AddressTable::LocalGid(const Port& from, const AddressPath& path) {
  const std::vector<GidEntry>& gids = from.config().gids;
  const size_t index = path.grh ? path.local_gid_index : 0;
  return index < gids.size() ? &gids[index] : nullptr;
}

std::optional<Gid> AddressTable::RemoteGid(const AddressPath& path) const {
  if (path.grh) return path.remote_gid;
  const auto port =
      FindPort(devices_, [&](const PortConfig& config) { return config.lid == path.remote_lid; });
  if (!port || path.remote_lid == 0) return std::nullopt;
  return port->config().gids.at(0).gid;
}

std::optional<Flow> AddressTable::FlowOf(const Port& from, const AddressPath& path) const {
  const std::optional<Gid> remote = RemoteGid(path);
  const GidEntry* const local = LocalGid(from, path);
  if (!remote || local == nullptr) return std::nullopt;
  const std::optional<Port> own = Find(*remote);
  return Flow{.source_mac = from.config().mac,
              .destination_mac = own ? own->config().mac : path.remote_mac,
              .source = local->gid,
              .destination = *remote,
              .version = local->version,
              .traffic_class = path.traffic_class,
              .hop_limit = path.hop_limit != 0 ? path.hop_limit : kDefaultHopLimit,
              .flow_label = path.flow_label,
              .source_port = path.udp_source_port};
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
