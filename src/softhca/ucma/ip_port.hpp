#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/config.hpp"

namespace softhca::ucma {

/// An IP address and port, as programs give them. IPv4 addresses are mapped, as in GIDs.
struct IpPort {
  Gid ip{};
  uint16_t port = 0;

  bool IsWildcard() const;
  bool IsLoopback() const;
  friend bool operator==(const IpPort&, const IpPort&) = default;
};

/// Reads an AF_INET or AF_INET6 address.
///
/// @param bytes  as many as are there
/// @errors  Errno: EINVAL for one cut short, EAFNOSUPPORT for another family
IpPort ReadIpPort(const void* address, size_t bytes);

/// @param to  a sockaddr of the family, or a greater one
/// @return    bytes written
size_t WriteIpPort(const IpPort& from, void* to);

/// Whether the host itself has the address.
bool IsOfThisHost(const IpPort& address);

/// The address by which the host's own routes send to `destination`; nothing if none leads there.
std::optional<Gid> SourceTowards(const Gid& destination);

}  // namespace softhca::ucma
