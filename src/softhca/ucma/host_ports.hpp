#pragma once

#include <cstdint>
#include <optional>

#include "cm/service.hpp"
#include "core/config.hpp"
#include "ucma/ip_port.hpp"
#include "wire/media/descriptor.hpp"

/// The TCP and UDP ports of the programs on this host. Each program has addresses of its own, but all share
/// the ports of one machine: abstract Unix sockets tell which program has a port and where it listens.
namespace softhca::ucma {

/// A port that is taken for the lifetime of the claim.
class PortClaim {
 public:
  PortClaim() = default;

  /// As for sockets, a claim on all addresses excludes every other one on the port; claims on different
  /// addresses do not exclude each other.
  ///
  /// @param address  address of the port; its port number is ignored
  /// @return         nothing if it is taken
  static std::optional<PortClaim> Take(cm::PortSpace space, uint16_t port, const IpPort& address);
  /// Takes a free ephemeral port.
  ///
  /// @errors  Errno: EADDRNOTAVAIL
  static PortClaim TakeAny(cm::PortSpace space, const IpPort& address);

  uint16_t port() const { return port_; }

 private:
  PortClaim(uint16_t port, Descriptor socket) : port_(port), socket_(std::move(socket)) {}

  uint16_t port_ = 0;
  Descriptor socket_;
};

/// Announces a listener.
///
/// @param address  address and port that the program has bound
/// @param gid      GID that reaches the program
/// @return         socket that keeps the announcement until it is closed
Descriptor Announce(cm::PortSpace space, const IpPort& address, const Gid& gid);

/// @param address  address and port; a wildcard finds only a listener on all addresses
/// @return         GID of the announced listener; nothing if there is none
std::optional<Gid> FindAnnounced(cm::PortSpace space, const IpPort& address);

}  // namespace softhca::ucma
