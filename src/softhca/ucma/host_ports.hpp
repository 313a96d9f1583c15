#pragma once

#include <cstdint>
#include <optional>

#include "cm/service.hpp"
#include "core/config.hpp"
#include "wire/media/descriptor.hpp"

/// The ports of the programs on this host, which have addresses of their own but meet as on one machine:
/// abstract Unix sockets say who has a port, and where he listens.
namespace softhca::ucma {

/// A port that is taken until this is gone.
class PortClaim {
 public:
  PortClaim() = default;

  /// @param gid  whose port; nothing: that of all addresses
  /// @return     nothing if somebody has it
  static std::optional<PortClaim> Take(cm::PortSpace space, uint16_t port, const std::optional<Gid>& gid);
  /// Takes a free port of those that are for that.
  ///
  /// @errors  Errno: EADDRNOTAVAIL
  static PortClaim TakeAny(cm::PortSpace space, const std::optional<Gid>& gid);

  uint16_t port() const { return port_; }

 private:
  PortClaim(uint16_t port, Descriptor socket) : port_(port), socket_(std::move(socket)) {}

  uint16_t port_ = 0;
  Descriptor socket_;
};

/// A port of no particular use.
uint16_t EphemeralPort();

/// Lets others find who listens on a port of all addresses.
///
/// @return  until it is closed
Descriptor Announce(cm::PortSpace space, uint16_t port, const Gid& gid);

/// @return  where the one listens who has announced it
std::optional<Gid> FindAnnounced(cm::PortSpace space, uint16_t port);

}  // namespace softhca::ucma
