#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cm/service.hpp"
#include "cm/transaction.hpp"
#include "core/hca.hpp"
#include "ucma/ip_port.hpp"

/// Which device, port and GID a program's IP addresses mean.
namespace softhca::ucma {

using Devices = std::vector<std::unique_ptr<Hca>>;

/// The port that has an address; of addresses that any program of the host may use, the first port.
///
/// @return  `destination` is empty; nothing if no port has it
std::optional<cm::Route> FindOwn(const Devices& devices, const IpPort& address);

/// The way to a destination.
///
/// @param source  where from; nothing: where the host's routes say, or the first port that is up
/// @return  nothing if no port that is up leads there
std::optional<cm::Route> FindRoute(const Devices& devices, const std::optional<cm::Route>& source,
                                   const Gid& destination);

/// Where a program is that others call by `address`: one on this host may be called by any of its addresses.
///
/// @return  nothing if it would be on this host, and nobody listens there
std::optional<Gid> FindPeer(cm::PortSpace space, const IpPort& address);

/// Which process of this host has an address, as a number that no later one will have; 0: none.
///
/// @return  nothing for an address that processes are not given, and if it cannot be told now
std::optional<uint64_t> ProcessAt(const Gid& address);

}  // namespace softhca::ucma
