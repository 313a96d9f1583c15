#include "ucma/routing.hpp"

#include <cerrno>

#include "ucma/host_ports.hpp"
#include "uverbs/errors.hpp"
#include "wire/address_block.hpp"
#include "wire/frame.hpp"

namespace softhca::ucma {
namespace {

/// Calls `take` with the RoCE v2 GIDs of all ports that are up until it accepts one.
template <class Take>
std::optional<cm::Route> FindGid(const Devices& devices, Take take) {
  for (const auto& hca : devices) {
    if (hca->config().link != mlx5::PortType::kEthernet) continue;
    for (size_t port = 1; port <= hca->config().ports.size(); ++port) {
      const PortConfig& config = hca->config().ports[port - 1];
      for (size_t i = 0; config.up && i < config.gids.size(); ++i) {
        const GidEntry& entry = config.gids[i];
        if (entry.version == mlx5::RoceVersion::kV2 && take(entry.gid))
          return cm::Route{hca.get(), static_cast<uint8_t>(port), static_cast<uint8_t>(i)};
      }
    }
  }
  return {};
}

/// Returns whether processes on this host get addresses of this kind.
bool IsOfAProcess(const Gid& gid) { return address_block::BlockOf(gid).has_value(); }

}  // namespace

std::optional<cm::Route> FindOwn(const Devices& devices, const IpPort& address) {
  auto found = FindGid(devices, [&](const Gid& gid) { return gid == address.ip; });
  if (!found && IsOfThisHost(address)) found = FindGid(devices, [](const Gid& gid) { return IsIpv4(gid); });
  return found;
}

std::optional<cm::Route> FindRoute(const Devices& devices, const std::optional<cm::Route>& source,
                                   const Gid& destination) {
  auto found = source;
  if (!found) {
    const auto preferred = SourceTowards(destination);
    found = FindGid(devices, [&](const Gid& gid) { return gid == preferred; });
  }
  if (!found || IsIpv4(found->source()) != IsIpv4(destination))
    found = FindGid(devices, [&](const Gid& gid) { return IsIpv4(gid) == IsIpv4(destination); });
  if (found) found->destination = destination;
  return found;
}

Gid SourceAddress(const cm::Route& route, const IpPort& destination) {
  if (IsOfAProcess(destination.ip) || !IsOfThisHost(destination)) return route.source();
  const Gid source = SourceTowards(destination.ip).value_or(route.source());
  if (IsIpv4(source) != IsIpv4(destination.ip))
    throw uverbs::Errno(EADDRNOTAVAIL, "no address of this host is of the destination's family");
  return source;
}

std::optional<Gid> FindPeer(cm::PortSpace space, const IpPort& address) {
  if (!IsOfThisHost(address)) return address.ip;
  if (const auto exact = FindAnnounced(space, address)) return exact;
  const auto any = FindAnnounced(space, {AllAddresses(IsIpv4(address.ip)), address.port});
  const auto block = address_block::BlockOf(address.ip);
  if (!block) return any;
  // The process that got the address may have several: keep the one that the program names. The listeners of
  // other users are not announced to this one, so their processes' addresses are kept, too.
  const bool is_elsewhere =
      any && address_block::BlockOf(*any) != block && !BlockClaim::IsOfAnotherUser(*block);
  return is_elsewhere ? any : address.ip;
}

std::optional<uint64_t> ProcessAt(const Gid& address) {
  const auto block = address_block::BlockOf(address);
  if (!block) return {};
  return BlockClaim::UserOf(*block).value_or(cm::kUnknownProcess);
}

}  // namespace softhca::ucma
