#include "setup/settings.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/limits.hpp"
#include "setup/interface.hpp"
#include "wire/address_block.hpp"
#include "wire/media/socket.hpp"

namespace softhca {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Settings, tree, block, devices, ports, link, mtu, ports_down, gids,
                                   atomics, host_order_atomics, user_index, wait, devx_events,
                                   log_max_message, first_key, interfaces, cable_local, cable_remote,
                                   addresses, raw_sockets, direct, faults, stats, stats_file, log, pcap,
                                   trace)

std::string Serialize(const Settings& settings) { return nlohmann::json(settings).dump(); }

Settings ParseSettings(const std::string& text) { return nlohmann::json::parse(text).get<Settings>(); }

namespace {

/// Returns the EUI-64 of an address, without the bit that IPv6 inverts.
uint64_t GuidOf(const Mac& mac) {
  const uint8_t bytes[] = {mac[0], mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  uint64_t guid = 0;
  for (const uint8_t byte : bytes) guid = guid << 8 | byte;
  return guid;
}

Gid LinkLocalGid(uint64_t interface_id) {
  Gid gid{0xfe, 0x80};
  for (uint32_t i = 0; i < 8; ++i) gid[8 + i] = static_cast<uint8_t>(interface_id >> (56 - 8 * i));
  return gid;
}

/// Adds one entry for each RoCE version, as Linux does.
void AddGid(const Gid& gid, PortConfig& port) {
  port.gids.push_back({gid, mlx5::RoceVersion::kV1});
  port.gids.push_back({gid, mlx5::RoceVersion::kV2});
}

/// Returns the GID that every port has, whatever its addresses.
Gid DefaultGid(const Mac& mac) {
  constexpr uint64_t kUniversal = uint64_t{2} << 56;  // the bit that IPv6 inverts
  return LinkLocalGid(GuidOf(mac) ^ kUniversal);
}

PortConfig MakeInfiniBandPort(const Mac& mac, uint16_t lid) {
  PortConfig config;
  config.mac = mac;
  config.lid = lid;
  config.gids = {{LinkLocalGid(GuidOf(mac)), mlx5::RoceVersion::kV1}};
  return config;
}

PortConfig MakePort(const Mac& mac, const std::vector<Gid>& addresses) {
  PortConfig config;
  config.mac = mac;
  AddGid(DefaultGid(mac), config);
  for (const Gid& gid : addresses) {
    const bool room = config.gids.size() + 2 <= limits::GidTableSize(mlx5::PortType::kEthernet);
    if (gid != DefaultGid(mac) && room) AddGid(gid, config);
  }
  return config;
}

/// @param text  IP[/PREFIX]; the prefix is ignored: every address is a neighbour on a cable
Gid ParseAddress(const std::string& text) {
  SocketAddress address{};
  const std::string ip = text.substr(0, text.find('/'));
  address.v4.sin_family = AF_INET;
  if (inet_pton(AF_INET, ip.c_str(), &address.v4.sin_addr) == 1) return ToGid(address);
  address.v6 = {};
  address.v6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET6, ip.c_str(), &address.v6.sin6_addr) == 1) return ToGid(address);
  throw std::invalid_argument("'" + text + "' is not an IP address; give --address one such as 10.0.0.1/24");
}

std::vector<Gid> CableAddresses(const Settings& settings) {
  std::vector<Gid> gids;
  gids.reserve(settings.addresses.size());
  for (const std::string& text : settings.addresses) gids.push_back(ParseAddress(text));
  return gids;
}

void AddPorts(const Settings& settings, uint32_t index, DeviceConfig& device) {
  for (uint32_t port = 1; port <= settings.ports; ++port) {
    const Mac mac = address_block::MacOf(settings.block, index, port);
    if (settings.link == mlx5::PortType::kInfiniBand) {
      device.ports.push_back(MakeInfiniBandPort(mac, address_block::LidOf(settings.block, index, port)));
    } else if (!settings.cable_local.empty()) {
      device.ports.push_back(MakePort(mac, CableAddresses(settings)));
    } else if (settings.interfaces.empty()) {
      device.ports.push_back(MakePort(mac, {address_block::Ipv4GidOf(settings.block, index, port)}));
      device.ports.back().interface = "lo";
    } else {
      const std::string& name = settings.interfaces.at(index * settings.ports + port - 1);
      const Interface interface = ReadInterface(name);
      device.ports.push_back(MakePort(interface.mac, interface.addresses));
      device.ports.back().interface = name;
      device.mtu = std::min(device.mtu, FittingMtu(interface.mtu));
    }
    if (!settings.gids) device.ports.back().gids.clear();
  }
}

void CheckWire(const Settings& settings) {
  const size_t named = settings.interfaces.size(), ports = size_t{settings.devices} * settings.ports;
  const bool cable = !settings.cable_local.empty();
  if (settings.addresses.empty() == cable) {
    throw std::invalid_argument("--cable and --address go together; give both or neither");
  }
  if (named != 0 && cable)
    throw std::invalid_argument("--cable and --interface exclude each other; give one of them");
  if (cable && ports != 1)
    throw std::invalid_argument("a cable has only one port; omit --devices and --ports");
  if (settings.link == mlx5::PortType::kInfiniBand && (named != 0 || cable)) {
    throw std::invalid_argument(
        "InfiniBand connects programs of one host only; --interface and --cable need --link ethernet");
  }
  if (settings.link == mlx5::PortType::kInfiniBand && !settings.gids) {
    throw std::invalid_argument("every InfiniBand port has a GID; --no-gids needs --link ethernet");
  }
  if (named == 0) return;
  if (named != ports) {
    throw std::invalid_argument("there are " + std::to_string(ports) + " ports and " + std::to_string(named) +
                                " interfaces; give one --interface for each port");
  }
  for (const std::string& name : settings.interfaces) {
    if (std::count(settings.interfaces.begin(), settings.interfaces.end(), name) != 1)
      throw std::invalid_argument("interface " + name +
                                  " is named twice; give each port an interface of its own");
  }
}

/// Takes down the ports that `what` names: "all", "mlx5_0" or "mlx5_0/1".
void TakeDown(std::vector<DeviceConfig>& devices, const std::string& what) {
  const size_t slash = what.find('/');
  const std::string name = what.substr(0, slash);
  uint32_t only = 0;
  bool found = false;
  if (slash != std::string::npos) {
    const char* const end = what.data() + what.size();
    const auto [rest, error] = std::from_chars(what.data() + slash + 1, end, only);
    if (error != std::errc() || rest != end) only = UINT32_MAX;
  }
  for (DeviceConfig& device : devices) {
    if (what != "all" && device.name != name) continue;
    for (uint32_t port = 1; port <= device.ports.size(); ++port) {
      if (slash != std::string::npos && port != only) continue;
      device.ports[port - 1].up = false;
      found = true;
    }
  }
  if (!found)
    throw std::invalid_argument("device or port '" + what +
                                "' does not exist; name one as mlx5_0 or mlx5_0/1");
}

}  // namespace

std::vector<DeviceConfig> MakeDevices(const Settings& settings) {
  CheckWire(settings);
  std::vector<DeviceConfig> devices;
  for (uint32_t i = 0; i < settings.devices; ++i) {
    DeviceConfig device;
    device.name = "mlx5_" + std::to_string(i);
    device.guid = GuidOf(address_block::MacOf(settings.block, i, 0));
    device.link = settings.link;
    device.mtu = settings.mtu;
    device.atomics = settings.atomics;
    device.host_order_atomics = settings.host_order_atomics;
    device.user_index = settings.user_index;
    device.wait = settings.wait;
    device.devx_events = settings.devx_events;
    device.log_max_message = settings.log_max_message;
    AddPorts(settings, i, device);
    if (!settings.interfaces.empty()) device.guid = GuidOf(device.ports.front().mac);
    devices.push_back(std::move(device));
  }
  for (const std::string& what : settings.ports_down) TakeDown(devices, what);
  return devices;
}

}  // namespace softhca
