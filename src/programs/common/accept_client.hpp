#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::programs {

/// Waits for a client that completes the first exchange.
///
/// A client may leave or fall silent after its greeting. Then `note` gets one line, and the next client is
/// served until the deadline.
///
/// @param patience   longest time for a client's first exchange
/// @param introduce  makes the first exchange by the given deadline, and throws host::Error if the
///                   client left
/// @param note       takes a line without its end
/// @errors  host::Error: no client completed the first exchange by the deadline; any other error of
///          `introduce`
host::TcpExchange AcceptClient(const host::TcpListener& listener, host::Deadline deadline,
                               std::chrono::nanoseconds patience,
                               const std::function<void(host::TcpExchange&, host::Deadline)>& introduce,
                               const std::function<void(const std::string&)>& note);

}  // namespace warpverbs::programs
