#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "connect/deadline_wait.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::inline v0_2::host {

/// An IPv4 or IPv6 address in the kernel's format.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
  std::string host() const;      ///< "10.0.0.2"; "the peer" if it has no text
  std::string ToString() const;  ///< "10.0.0.2 port 18517"; IPv4 even if an IPv6 socket reports it
};

/// Returns "gpu-7 port 18517", or "port 18517" without a host.
std::string ToString(const TcpAddress& address);

/// Returns all addresses of a peer, the most promising first. An empty name means this machine.
///
/// Asks the name server in a separate thread, because nothing bounds the time that getaddrinfo() takes. If no
/// server answers, the thread outlives the deadline.
///
/// @errors  Error: the host does not exist; no answer by the deadline
std::vector<SocketAddress> Resolve(const TcpAddress& peer, const DeadlineWait& waiting);

/// Does the same for an address to listen at. An empty name means every local address, IPv6 first, because
/// such a socket also accepts IPv4.
///
/// @errors  Error: as above, after 10 s for which this process ran
std::vector<SocketAddress> ResolveOwn(const TcpAddress& address);

/// Sets an optional option: ignores failure.
void SetOption(int socket, int level, int option, int value);

/// Returns whether a call on a non-blocking socket would have waited.
bool WouldWait(int error);

/// Returns whether the failure is local: a shortage or an invalid socket.
bool IsOwnFailure(int error);
constexpr char kOwnRemedy[] = "Close other files, or raise the limit (ulimit -n)";

/// Makes a non-blocking socket that is closed on exec(). Invalid on failure, with errno set.
FileDescriptor MakeSocket(int family);

/// Tries to connect to an address once.
///
/// @return  invalid on failure, with an errno value in `error`
FileDescriptor ConnectOnce(const SocketAddress& address, const DeadlineWait& waiting, int& error);

}  // namespace warpverbs::inline v0_2::host
