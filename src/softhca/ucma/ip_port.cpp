#include "ucma/ip_port.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "uverbs/errors.hpp"
#include "wire/frame.hpp"
#include "wire/media/socket.hpp"

namespace softhca::ucma {
namespace {

Descriptor DatagramSocket(const SocketAddress& address) {
  return Descriptor(socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

}  // namespace

bool IpPort::IsWildcard() const { return ip == AllAddresses(false) || ip == AllAddresses(true); }

bool IpPort::IsLoopback() const { return ip == LoopbackAddress(false) || (IsIpv4(ip) && ip[12] == 127); }

bool IpPort::IsMulticast() const { return softhca::IsMulticast(ip); }

Gid AllAddresses(bool ipv4) {
  Gid ip{};
  if (ipv4) ip[10] = ip[11] = 0xff;
  return ip;
}

Gid LoopbackAddress(bool ipv4) {
  Gid ip = AllAddresses(ipv4);
  if (ipv4) ip[12] = 127;
  ip.back() = 1;
  return ip;
}

IpPort ReadIpPort(const void* address, size_t bytes) {
  using uverbs::Errno;
  SocketAddress copy{};
  std::memcpy(&copy.any, address, std::min(bytes, sizeof(sockaddr_in6)));
  const bool ipv4 = copy.any.sa_family == AF_INET;
  if (!ipv4 && copy.any.sa_family != AF_INET6)
    throw Errno(EAFNOSUPPORT, "the address is neither IPv4 nor IPv6");
  copy.bytes = ipv4 ? sizeof copy.v4 : sizeof copy.v6;
  if (bytes < copy.bytes) throw Errno(EINVAL, "the address is truncated");
  return {ToGid(copy), ntohs(ipv4 ? copy.v4.sin_port : copy.v6.sin6_port)};
}

size_t WriteIpPort(const IpPort& from, void* to) {
  const SocketAddress address = ToSocketAddress(from.ip, from.port);
  std::memcpy(to, &address.any, address.bytes);
  return address.bytes;
}

bool IsOfThisHost(const IpPort& address) {
  if (address.IsWildcard() || address.IsLoopback()) return true;
  if (address.IsMulticast()) return false;  // sockets can be bound to it
  const SocketAddress name = ToSocketAddress(address.ip, 0);
  return bind(DatagramSocket(name).get(), &name.any, name.bytes) == 0;
}

std::optional<Gid> SourceTowards(const Gid& destination) {
  constexpr uint16_t kAnyPort = 9;  // any port will do: nothing is sent
  SocketAddress name = ToSocketAddress(destination, kAnyPort);
  const Descriptor socket = DatagramSocket(name);
  if (connect(socket.get(), &name.any, name.bytes) != 0) return {};
  if (getsockname(socket.get(), &name.any, &name.bytes) != 0) return {};
  return ToGid(name);
}

}  // namespace softhca::ucma
