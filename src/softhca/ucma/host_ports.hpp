#pragma once

#include <cstdint>
#include <optional>

#include "cm/service.hpp"
#include "core/config.hpp"
#include "wire/media/descriptor.hpp"

/// The TCP and UDP ports of the programs on this host. Each program has addresses of its own, but all share
/// the ports of one machine: abstract Unix sockets tell which program has a port and where it listens.
namespace softhca::ucma {

/// A port that is taken for the lifetime of the claim.
class PortClaim {
 public:
  PortClaim() = default;

  /// @param gid  address of the port; nothing: all addresses
  /// @return     nothing if another program has it
  static std::optional<PortClaim> Take(cm::PortSpace space, uint16_t port, const std::optional<Gid>& gid);
  /// Takes a free ephemeral port.
  ///
  /// @errors  Errno: EADDRNOTAVAIL
  static PortClaim TakeAny(cm::PortSpace space, const std::optional<Gid>& gid);

  uint16_t port() const { return port_; }

 private:
  PortClaim(uint16_t port, Descriptor socket) : port_(port), socket_(std::move(socket)) {}

  uint16_t port_ = 0;
  Descriptor socket_;
};

/// Returns a port of the ephemeral range.
uint16_t EphemeralPort();

/// Announces a listener on a port of all addresses.
///
/// @return  socket that keeps the announcement until it is closed
Descriptor Announce(cm::PortSpace space, uint16_t port, const Gid& gid);

/// @return  address of the announced listener; nothing if there is none
std::optional<Gid> FindAnnounced(cm::PortSpace space, uint16_t port);

}  // namespace softhca::ucma
