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

/// Who is where: the ports of this process by their addresses, and the addresses that queue pairs send by.
class AddressTable {
 public:
  explicit AddressTable(std::vector<Hca*> devices) : devices_(std::move(devices)) {}

  const std::vector<Hca*>& devices() const { return devices_; }

  /// @return  nothing if no port of this process has that GID
  std::optional<Port> Find(const Gid& gid) const;
  /// The port that hears packets of a RoCE version that come to a GID.
  std::optional<Port> Find(const Gid& gid, mlx5::RoceVersion version) const;
  /// The GID that a path starts from; if it leads to a LID, the port's first one.
  ///
  /// @return  null if the port has none of that index
  static const GidEntry* LocalGid(const Port& from, const AddressPath& path);
  /// The GID at the far end of a path; a LID stands for the first GID of the port that has it.
  std::optional<Gid> RemoteGid(const AddressPath& path) const;

  /// How packets travel along a path from a port.
  ///
  /// @return  nothing if the path leads to a LID that no port has
  std::optional<Flow> FlowOf(const Port& from, const AddressPath& path) const;

 private:
  std::vector<Hca*> devices_;
};

/// The Ethernet address behind a GID of somebody else, which a kernel would ask its neighbour table for: the
/// one that the GID tells, or else one made of the IPv4 address.
Mac GuessMac(const Gid& gid);

/// The Ethernet addresses of all ports.
std::vector<Mac> MacsOf(const std::vector<Hca*>& devices);

}  // namespace softhca
