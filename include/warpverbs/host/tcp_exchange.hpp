#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warpverbs/host/exchange.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// A network address: IPv4, IPv6 or the name of a host.
struct TcpAddress {
  std::string host{};  ///< empty: to listen, any address of this machine; to connect, this machine
  uint16_t port = 0;   ///< 0: to listen, a free one
};

/// Messages to one peer over TCP, in frames that identify other programs and other versions.
///
/// Neither encrypts nor authenticates: for networks whose hosts trust each other. After an error the
/// connection is closed, which tells the peer. Raises no SIGPIPE; an exec() closes its socket. After a move
/// only destroy the source, or assign to it.
class WARPVERBS_EXPORT TcpExchange final : public Exchange {
 public:
  /// Connects to a peer, which may start to listen a little later, and greets it.
  ///
  /// @errors  Error: nothing listens there by the deadline, or the host is unknown or unreachable
  static TcpExchange Connect(const TcpAddress& peer, Deadline deadline);

  /// @errors  Error: the deadline passed; the peer closed the connection, does not speak this protocol or has
  ///          another version of it; a message is too long; an earlier swap failed
  std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view what, Deadline deadline) override;
  using Exchange::Swap;

  std::string PeerName() const override;

  TcpExchange(TcpExchange&&) noexcept;
  TcpExchange& operator=(TcpExchange&&) noexcept;
  ~TcpExchange() override;

 private:
  friend class TcpListener;
  struct Connection;
  explicit TcpExchange(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

/// Accepts connections of any number of peers. After a move only destroy the source, or assign to it.
class WARPVERBS_EXPORT TcpListener {
 public:
  /// @errors  Error: not an address of this machine, or the port is taken
  explicit TcpListener(const TcpAddress& address = {});
  TcpListener(TcpListener&&) noexcept;
  TcpListener& operator=(TcpListener&&) noexcept;
  ~TcpListener();

  /// The port it listens on, also if a free one was asked for.
  uint16_t port() const;

  /// Waits for the next peer, which TcpExchange::Connect() made greet. Thread-safe.
  ///
  /// Refuses connections of other programs and of other versions of the protocol, with a warning in the log
  /// for each host, and waits on. A connection that says nothing holds no other one up; the listener keeps
  /// the last 64 of them. A greeting is no proof: the peer's first message must show that it is the right
  /// one.
  ///
  /// @errors  Error: no peer came by the deadline, with the last refusal; no more file descriptors
  TcpExchange Accept(Deadline deadline) const;

 private:
  struct Socket;
  std::unique_ptr<Socket> socket_;
};

}  // namespace warpverbs::inline v0_2::host
