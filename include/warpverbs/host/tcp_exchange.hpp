#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/file_descriptor.hpp"

namespace warpverbs::host {

/// A place in a network: IPv4, IPv6 or the name of a host.
struct TcpAddress {
  std::string
      host{};         ///< empty: any address of this machine, for who listens; this machine, for who connects
  uint16_t port = 0;  ///< 0: a free one, for who listens
};

/// Messages to one peer over TCP, each in a frame that tells a stranger and another version from the peer.
///
/// No encryption and no proof of who the peer is: for networks whose hosts trust each other. After an error
/// the connection is closed, which tells the peer. Raises no SIGPIPE; its socket does not outlive an exec().
class TcpExchange final : public Exchange {
 public:
  /// Goes to a peer, which may start to listen a little later.
  ///
  /// @errors  Error: nobody listens there by the deadline; no such host; no way to it
  static TcpExchange Connect(const TcpAddress& peer, Deadline deadline);

  /// @errors  Error: the deadline passed; the peer left; it is a stranger or of another version; a message is
  ///          too long; an earlier swap failed
  std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view what, Deadline deadline) override;

  std::string PeerName() const override { return peer_; }

 private:
  friend class TcpListener;
  TcpExchange(FileDescriptor socket, std::string peer);

  FileDescriptor socket_;
  std::string peer_;
  std::string failure_;  // of the first swap that failed, if it can be said; then there is no socket
};

/// Where peers come in, as many as there are.
class TcpListener {
 public:
  /// @errors  Error: not an address of this machine, or the port is taken
  explicit TcpListener(const TcpAddress& address = {});

  /// Where it listens, also if any port was asked for.
  uint16_t port() const { return port_; }

  /// Waits for the next peer. Who it is and whether it is one at all, its first Swap() tells. Thread-safe.
  ///
  /// @errors  Error: nobody came by the deadline; no more file descriptors
  TcpExchange Accept(Deadline deadline) const;

 private:
  FileDescriptor socket_;
  uint16_t port_ = 0;
};

}  // namespace warpverbs::host
