#pragma once

#include <optional>
#include <vector>

#include "core/hca.hpp"
#include "core/link.hpp"
#include "wire/frame.hpp"

namespace softhca {

/// A port of one of this process's devices.
struct Port {
  Hca* hca = nullptr;
  uint8_t number = 0;

  const PortConfig& config() const { return hca->config().ports.at(number - 1); }
  friend bool operator==(const Port&, const Port&) = default;
};

inline Port PortOf(const QueuePair& qp) { return {qp.hca, qp.attributes.port}; }

/// Resolves addresses: ports of this process by GID or LID, and the headers of a queue pair's path.
class AddressTable {
 public:
  explicit AddressTable(std::vector<Hca*> devices) : devices_(std::move(devices)) {}

  const std::vector<Hca*>& devices() const { return devices_; }
  /// Returns the link layer, which all devices share.
  mlx5::PortType link() const { return devices_.front()->config().link; }

  /// @return  nothing if no port of this process has that GID
  std::optional<Port> Find(const Gid& gid) const;
  /// Returns the port at the end of a path: on InfiniBand by its LID.
  std::optional<Port> Find(const AddressPath& path) const;
  /// Returns the port that receives frames of a flow to one port. A GRH must name the port.
  std::optional<Port> FindReceiver(const Flow& flow) const;
  /// Returns the source GID of a path; for a path without GRH, the port's first GID.
  ///
  /// @return  null if the port has no GID of that index
  static const GidEntry* LocalGid(const Port& from, const AddressPath& path);

  /// Returns the headers' contents for packets along a path from a port.
  ///
  /// @return  nothing if the port does not have the path's GID, or the path has no LID on InfiniBand
  std::optional<Flow> FlowOf(const Port& from, const AddressPath& path) const;

 private:
  std::vector<Hca*> devices_;
};

/// Returns a MAC for a GID of another process, for which a kernel would use its neighbour table: the MAC that
/// the GID contains, or else one made from the IPv4 address. A multicast group has a MAC of its own.
///
/// @source  RFC 1112, 6.4, and RFC 2464, 7: multicast groups
Mac GuessMac(const Gid& gid);

/// Returns the MACs of all ports.
std::vector<Mac> MacsOf(const std::vector<Hca*>& devices);

}  // namespace softhca
