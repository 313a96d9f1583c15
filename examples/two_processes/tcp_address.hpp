// The address where two processes meet, as a command line gives it.
#pragma once

#include <cstdint>
#include <limits>
#include <regex>
#include <stdexcept>
#include <string>

#include "warpverbs/host/tcp_exchange.hpp"

inline constexpr uint16_t kDefaultPort = 18517;

/// Reads "[HOST:]PORT" for a listener, "HOST[:PORT]" for a connector. An IPv6 address is in brackets.
///
/// @errors  std::invalid_argument: the text has another form
inline warpverbs::host::TcpAddress ParseTcpAddress(const std::string& text, bool listens) {
  static const std::regex listening(R"((?:(\[.+\]|[^:\[\]]+):)?([0-9]{1,5}))");
  static const std::regex connecting(R"((\[.+\]|[^:\[\]]+)(?::([0-9]{1,5}))?)");
  std::smatch parts;
  const bool matches = std::regex_match(text, parts, listens ? listening : connecting);
  const int port = matches && parts[2].matched ? std::stoi(parts[2]) : kDefaultPort;
  if (!matches || port > std::numeric_limits<uint16_t>::max())
    throw std::invalid_argument("'" + text + "' is not of the form " +
                                (listens ? "[HOST:]PORT" : "HOST[:PORT]"));
  std::string host = parts[1];
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  return {host, static_cast<uint16_t>(port)};
}
