#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "uverbs/address_block.hpp"
#include "uverbs/settings.hpp"

namespace softhca {
namespace {

/// The EUI-64 of an address, without the inversion that IPv6 makes.
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

PortConfig MakePort(const Settings& settings, uint32_t device, uint32_t port) {
  PortConfig config;
  config.mac = address_block::MacOf(settings.block, device, port);
  if (settings.link == mlx5::PortType::kInfiniBand) {
    config.lid = static_cast<uint16_t>(1 + 2 * device + port);  // LID 1 is the subnet manager's
    config.gids = {{LinkLocalGid(GuidOf(config.mac)), mlx5::RoceVersion::kV1}};
    return config;
  }
  constexpr uint64_t kUniversal = uint64_t{2} << 56;  // the bit that IPv6 inverts
  const Gid link_local = LinkLocalGid(GuidOf(config.mac) ^ kUniversal);
  const Gid ipv4 = address_block::Ipv4GidOf(settings.block, device, port);
  config.gids = {{link_local, mlx5::RoceVersion::kV1},
                 {link_local, mlx5::RoceVersion::kV2},
                 {ipv4, mlx5::RoceVersion::kV1},
                 {ipv4, mlx5::RoceVersion::kV2}};
  return config;
}

/// Takes down what `what` names: "all", "mlx5_0" or "mlx5_0/1".
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
  if (!found) throw std::invalid_argument("there is no device or port '" + what + "' to take down");
}

}  // namespace

std::vector<DeviceConfig> MakeDevices(const Settings& settings) {
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
    device.log_max_message = settings.log_max_message;
    for (uint32_t port = 1; port <= settings.ports; ++port)
      device.ports.push_back(MakePort(settings, i, port));
    devices.push_back(std::move(device));
  }
  for (const std::string& what : settings.ports_down) TakeDown(devices, what);
  return devices;
}

}  // namespace softhca
