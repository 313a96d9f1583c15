#include "uverbs/make_network.hpp"

#include <algorithm>
#include <utility>

#include "uverbs/watched_network.hpp"
#include "wire/media/loop_medium.hpp"
#include "wire/media/neighbour_medium.hpp"
#include "wire/media/switch_medium.hpp"
#include "wire/media/udp_medium.hpp"

namespace softhca::uverbs {
namespace {

std::vector<Mac> MacsOf(const std::vector<Hca*>& devices) {
  std::vector<Mac> macs;
  for (const Hca* hca : devices) {
    for (const PortConfig& port : hca->config().ports) macs.push_back(port.mac);
  }
  return macs;
}

/// The addresses that a socket of this host can have.
std::vector<UdpAddress> UdpAddressesOf(const std::vector<Hca*>& devices) {
  std::vector<UdpAddress> addresses;
  for (const Hca* hca : devices) {
    for (const PortConfig& port : hca->config().ports) {
      for (const GidEntry& entry : port.gids) {
        if (entry.version != mlx5::RoceVersion::kV2 || !IsIpv4(entry.gid)) continue;
        addresses.push_back({.gid = entry.gid, .mac = port.mac});
      }
    }
  }
  return addresses;
}

std::unique_ptr<Medium> OpenMedium(const std::vector<Hca*>& devices) {
  auto medium = std::make_unique<SwitchMedium>();
  const std::vector<Mac> macs = MacsOf(devices);
  medium->Add(
      [macs](auto frame) { return std::find(macs.begin(), macs.end(), DestinationMac(frame)) != macs.end(); },
      std::make_unique<LoopMedium>());
  if (devices.front()->config().link == mlx5::PortType::kInfiniBand) return medium;
  medium->Add([](auto frame) { return EtherType(frame) == kEtherTypeIpv4; },
              std::make_unique<UdpMedium>(UdpAddressesOf(devices)));
  medium->Add([](auto) { return true; }, std::make_unique<NeighbourMedium>(macs));
  return medium;
}

}  // namespace

std::unique_ptr<WireNetwork> MakeNetwork(const Settings& settings, std::vector<Hca*> devices) {
  const WireOptions options{.open_medium = [devices] { return OpenMedium(devices); }};
  return std::make_unique<WireNetwork>(devices, WithFaultsAndCapture(options, settings, devices));
}

}  // namespace softhca::uverbs
