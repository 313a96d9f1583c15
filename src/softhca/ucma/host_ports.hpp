#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cm/service.hpp"
#include "core/config.hpp"
#include "ucma/ip_port.hpp"
#include "wire/media/descriptor.hpp"

/// The TCP and UDP ports of the programs on this host. Each program has addresses of its own, but all share
/// the ports of one machine: abstract Unix sockets tell which program has a port and where it listens.
namespace softhca::ucma {

/// Families of addresses to which a wildcard extends.
enum class Families : uint8_t {
  kOwn,   ///< the wildcard's own
  kBoth,  ///< IPv4 as well as IPv6
};

/// A port that is taken for the lifetime of the claim.
class PortClaim {
 public:
  PortClaim() = default;

  /// Takes a port of an address. A claim on all addresses of a family excludes every other one on the port
  /// and family; claims on different addresses do not exclude each other. If the port is taken, the claim has
  /// no port().
  ///
  /// @param address  address of the port; its port number is ignored
  /// @source  Linux 6.1, drivers/infiniband/core/cma.c, cma_check_port()
  static PortClaim Take(cm::PortSpace space, uint16_t port, const IpPort& address, Families families);
  /// Takes a free ephemeral port.
  ///
  /// @errors  Errno: EADDRNOTAVAIL
  static PortClaim TakeAny(cm::PortSpace space, const IpPort& address, Families families);

  uint16_t port() const { return port_; }  ///< 0: nothing is claimed
  /// Returns why Take() has claimed nothing: EADDRINUSE if the same address is taken, EADDRNOTAVAIL if all
  /// addresses are, or are asked for; 0 otherwise.
  int conflict() const { return conflict_; }

 private:
  explicit PortClaim(int conflict) : conflict_(conflict) {}
  PortClaim(uint16_t port, std::vector<Descriptor> sockets) : port_(port), sockets_(std::move(sockets)) {}

  uint16_t port_ = 0;
  int conflict_ = 0;
  std::vector<Descriptor> sockets_;
};

/// Announces a listener.
///
/// @param address  address and port that the program has bound
/// @param gid      GID that reaches the program
/// @return         sockets that keep the announcement until they are closed
std::vector<Descriptor> Announce(cm::PortSpace space, const IpPort& address, Families families,
                                 const Gid& gid);

/// @param address  address and port; a wildcard finds only a listener on all addresses of its family
/// @return         GID of the announced listener; nothing if there is none
std::optional<Gid> FindAnnounced(cm::PortSpace space, const IpPort& address);

}  // namespace softhca::ucma
