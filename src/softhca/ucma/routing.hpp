#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cm/service.hpp"
#include "cm/transaction.hpp"
#include "core/hca.hpp"
#include "ucma/ip_port.hpp"

/// Maps the IP addresses of programs to devices, ports and GIDs.
namespace softhca::ucma {

using Devices = std::vector<std::unique_ptr<Hca>>;

/// Finds the port that has an address; the first port for any other address of this host, also if another
/// process got it: programs pass addresses on.
///
/// @return  a route with empty `destination`; nothing if no port has the address
std::optional<cm::Route> FindOwn(const Devices& devices, const IpPort& address);

/// Finds the route to a destination.
///
/// @param source  port to send from; nothing: the one that the host's routes choose, or the first that is up
/// @return  nothing if no port that is up leads there
std::optional<cm::Route> FindRoute(const Devices& devices, const std::optional<cm::Route>& source,
                                   const Gid& destination);

/// Returns the address by which a program appears to a destination: as on Linux, 127.0.0.1 to 127.0.0.1, and
/// the host's own address to itself. To the address of a process, and to other hosts, the port's address.
///
/// @errors  Errno: EADDRNOTAVAIL if the host has no address of the destination's family
Gid SourceAddress(const cm::Route& route, const IpPort& destination);

/// Finds the GID of the program that others reach by `address`: a program on this host may be reached by any
/// of the host's addresses, those of this user's other processes included.
///
/// @return  nothing if the address is this host's and no program listens there
std::optional<Gid> FindPeer(cm::PortSpace space, const IpPort& address);

/// Finds the process of this host that has an address.
///
/// @return  a number that no later process will have; 0: no process has the address; empty for an address of
///          another kind, or if the answer is unknown for now
std::optional<uint64_t> ProcessAt(const Gid& address);

}  // namespace softhca::ucma
