#pragma once

#include <cstdint>
#include <memory>

#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/tcp_exchange.hpp"
#include "warpverbs/version.hpp"

/// Connecting by the fabric's own connection manager: it needs no TCP, and a side that ends tells its peer.
/// Target: warpverbs::rdmacm, which needs librdmacm.
namespace warpverbs::inline v0_2::host {

/// An endpoint's connection, as the connection manager knows it. One that goes away tells the peer.
///
/// The endpoints' descriptions travel in the messages that connect; Endpoint::Connect() does the rest. After
/// the end of a connection, Reset() the endpoint before it connects again. The endpoint sends from the GID of
/// its EndpointConfig, whatever the manager's route: ConnectAll() chooses by the peer's. Not thread-safe.
class WARPVERBS_EXPORT CmConnection {
 public:
  /// Connects an endpoint to that of a peer, which may start to listen a little later.
  ///
  /// @param peer  an address of a device of the peer, and the port of its CmListener. Of a name that has
  ///              several addresses the first that leads there counts; those share the time
  /// @errors  Error: as TcpExchange::Connect(); the way there leads through another device; the peer's reason
  ///          to refuse, in its own words; what the connection manager says. The endpoint is as after a
  ///          Reset()
  static CmConnection Connect(Endpoint& endpoint, const TcpAddress& peer, Deadline deadline);

  CmConnection(CmConnection&&) noexcept;
  CmConnection& operator=(CmConnection&&) noexcept;
  ~CmConnection();

  /// Waits until the peer has left, or its device; false at the deadline.
  ///
  /// @errors  Error: the connection manager fails
  bool AwaitEnd(Deadline deadline);

 private:
  friend class CmListener;
  struct Parts;
  explicit CmConnection(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

/// Where peers connect to, one for each Accept().
class WARPVERBS_EXPORT CmListener {
 public:
  /// @param address  of a device of this machine; without a host, of all
  /// @errors  Error: no device has the address, or the port is taken
  explicit CmListener(const TcpAddress& address = {});
  CmListener(CmListener&&) noexcept;
  CmListener& operator=(CmListener&&) noexcept;
  ~CmListener();

  /// Where it listens, also if any port was asked for.
  uint16_t port() const;

  /// Connects an endpoint to that of the next peer. Programs that do not use this library are refused.
  ///
  /// @errors  Error: as CmConnection::Connect(); no peer came by the deadline. A refused peer learns why
  CmConnection Accept(Endpoint& endpoint, Deadline deadline);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace warpverbs::inline v0_2::host
