#include "setup/network.hpp"

#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <functional>
#include <utility>

#include "core/pacing.hpp"
#include "faults/faulty_medium.hpp"
#include "faults/faulty_network.hpp"
#include "observe/capturing_medium.hpp"
#include "observe/patient_write.hpp"
#include "wire/media/cable_medium.hpp"
#include "wire/media/loop_medium.hpp"
#include "wire/media/neighbour_medium.hpp"
#include "wire/media/switch_medium.hpp"
#include "wire/media/udp_medium.hpp"

namespace softhca {
namespace {

/// Returns the addresses that sockets of this host can bind.
std::vector<UdpAddress> UdpAddressesOf(const Settings& settings, const std::vector<Hca*>& devices) {
  std::vector<UdpAddress> addresses;
  auto interface = settings.interfaces.begin();
  for (const Hca* hca : devices) {
    for (const PortConfig& port : hca->config().ports) {
      const bool real = interface != settings.interfaces.end();
      const uint32_t scope = real ? if_nametoindex((interface++)->c_str()) : 0;
      for (const GidEntry& entry : port.gids) {
        if (entry.version != mlx5::RoceVersion::kV2 || (!real && !IsIpv4(entry.gid))) continue;
        addresses.push_back({.gid = entry.gid, .mac = port.mac, .scope = scope});
      }
    }
  }
  return addresses;
}

/// Returns every address of the port once.
std::vector<WireAddress> WireAddressesOf(const PortConfig& port) {
  std::vector<WireAddress> addresses;
  for (const GidEntry& entry : port.gids) {
    if (entry.version == mlx5::RoceVersion::kV2) addresses.push_back({entry.gid, port.mac});
  }
  return addresses;
}

/// Frames to this process stay in it; those to multicast groups come back to it, too. IP packets that sockets
/// of this host can carry go through them. All other frames go from process to process.
std::unique_ptr<Medium> OpenMedium(const Settings& settings, const std::vector<Hca*>& devices) {
  auto medium = std::make_unique<SwitchMedium>();
  const std::vector<Mac> macs = MacsOf(devices);
  const mlx5::PortType link = settings.link;
  medium->Add(
      [macs, link](auto frame) {
        return std::find(macs.begin(), macs.end(), DestinationMac(frame, link)) != macs.end();
      },
      std::make_unique<LoopMedium>());
  medium->AddCopy([link](auto frame) { return IsGroupFrame(frame, link); }, std::make_unique<LoopMedium>());
  if (link == mlx5::PortType::kInfiniBand) {
    medium->Add([](auto) { return true; }, std::make_unique<NeighbourMedium>(macs, link));
    return medium;
  }
  if (!settings.cable_local.empty()) {
    medium->Add([](auto) { return true; },
                std::make_unique<CableMedium>(settings.cable_local, settings.cable_remote,
                                              WireAddressesOf(devices.front()->config().ports.front())));
    return medium;
  }
  const bool ipv6 = !settings.interfaces.empty();
  medium->Add(
      [ipv6](auto frame) {
        return EtherType(frame) == kEtherTypeIpv4 || (ipv6 && EtherType(frame) == kEtherTypeIpv6);
      },
      std::make_unique<UdpMedium>(UdpAddressesOf(settings, devices), settings.raw_sockets));
  medium->Add([](auto) { return true; }, std::make_unique<NeighbourMedium>(macs));
  return medium;
}

/// Puts capture and faults between the network and its medium. The faults come first: the capture shows lost
/// frames as lost.
WireOptions WithFaultsAndCapture(WireOptions options, const Settings& settings,
                                 const std::vector<Hca*>& devices,
                                 const std::shared_ptr<PcapWriter>& capture) {
  using OpenMedium = std::function<std::unique_ptr<Medium>()>;
  if (capture != nullptr) {
    options.direct = false;
    options.open_medium = [open = OpenMedium(std::move(options.open_medium)), capture,
                           macs = MacsOf(devices)] {
      return std::make_unique<CapturingMedium>(open(), capture, macs);
    };
  }
  if (const FaultPlan plan = ParseFaults(settings.faults); plan.ConcernsFrames()) {
    options.direct = false;
    options.open_medium = [open = OpenMedium(std::move(options.open_medium)), plan, link = settings.link] {
      return std::make_unique<FaultyMedium>(open(), plan, std::make_shared<FaultDice>(plan), NowNs, link);
    };
  }
  return options;
}

}  // namespace

std::unique_ptr<WireNetwork> MakeNetwork(const Settings& settings, const std::vector<Hca*>& devices,
                                         const std::shared_ptr<PcapWriter>& capture) {
  const auto open = [settings, devices] {
    try {
      return OpenMedium(settings, devices);
    } catch (const std::exception& error) {
      PrintError(error.what());  // the program sees an errno only
      throw;
    }
  };
  const bool cable = !settings.cable_local.empty();
  const WireOptions options{
      .open_medium = open, .direct = settings.direct, .open_at_once = cable, .unique_addresses = !cable};
  return std::make_unique<WireNetwork>(devices, WithFaultsAndCapture(options, settings, devices, capture));
}

std::unique_ptr<Network> AddIncidents(std::unique_ptr<Network> network, const Settings& settings,
                                      const std::vector<Hca*>& devices) {
  FaultPlan plan = ParseFaults(settings.faults);
  if (plan.links.empty() && plan.syndromes.empty() && !plan.kill_after_ns) return network;
  return std::make_unique<FaultyNetwork>(std::move(network), std::move(plan), devices, NowNs(),
                                         [] { kill(getpid(), SIGKILL); });
}

}  // namespace softhca
