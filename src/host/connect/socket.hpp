#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "connect/waiting.hpp"
#include "warpverbs/host/file_descriptor.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::host {

/// An address as the kernel takes it, of IPv4 or IPv6.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
  std::string ToText() const;  // "10.0.0.2 port 18517"; IPv4 also where an IPv6 socket says it
};

/// In words: "gpu-7 port 18517", "port 18517".
std::string ToText(const TcpAddress& address);

/// All addresses of a name, the most promising first. An empty name is any address for who listens, IPv6
/// first, which takes IPv4, too; else this machine.
///
/// Asks a name server from a thread of its own, for nothing bounds the time that it takes: one that does not
/// answer keeps that thread beyond the deadline.
///
/// @errors  Error: no such host; no answer by the deadline
std::vector<SocketAddress> Resolve(const TcpAddress& address, bool listens, const Waiting& waiting);

/// A socket that neither waits nor outlives an exec(); none where errno says why.
FileDescriptor MakeSocket(int family);

/// Goes to an address once.
///
/// @return  none where `error` says why, as errno does
FileDescriptor ConnectOnce(const SocketAddress& address, const Waiting& waiting, int& error);

}  // namespace warpverbs::host
