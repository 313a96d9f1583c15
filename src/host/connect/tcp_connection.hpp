#pragma once

#include <string>

#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::inline v0_2::host {

/// A connection to a peer. Both sides know that the other speaks this library's protocol, or will.
struct TcpExchange::Connection {
  Connection(FileDescriptor connected, std::string name);

  FileDescriptor socket;
  std::string peer;
  std::string failure{};  ///< the first swap that failed, if it can be said; then the socket is closed
};

}  // namespace warpverbs::inline v0_2::host
