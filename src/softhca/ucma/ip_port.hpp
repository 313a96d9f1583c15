#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/config.hpp"

namespace softhca::ucma {

/// An IP address and port. IPv4 addresses are mapped, as in GIDs.
struct IpPort {
  Gid ip{};
  uint16_t port = 0;

  bool IsWildcard() const;
  bool IsLoopback() const;
  bool IsMulticast() const;
  friend bool operator==(const IpPort&, const IpPort&) = default;
};

/// Reads an AF_INET or AF_INET6 address.
///
/// @param bytes  length of the buffer
/// @errors  Errno: EINVAL for a truncated address, EAFNOSUPPORT for another family
IpPort ReadIpPort(const void* address, size_t bytes);

/// Writes an AF_INET or AF_INET6 address.
///
/// @param to  a sockaddr of the family, or larger
/// @return    bytes written
size_t WriteIpPort(const IpPort& from, void* to);

/// Returns 0.0.0.0 or ::.
Gid AllAddresses(bool ipv4);

/// Returns 127.0.0.1 or ::1.
Gid LoopbackAddress(bool ipv4);

/// Returns whether this host has the address.
bool IsOfThisHost(const IpPort& address);

/// Returns the source address that the host's routes choose for `destination`; nothing if none leads there.
std::optional<Gid> SourceTowards(const Gid& destination);

}  // namespace softhca::ucma
