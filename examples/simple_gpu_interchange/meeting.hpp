// Where two processes meet, as a command line says it.
#pragma once

#include <cstdint>
#include <string>

#include "warpverbs/host/tcp_exchange.hpp"

constexpr uint16_t kMeetingPort = 18517;

/// Reads "[HOST:]PORT" of one who listens, "HOST[:PORT]" of one who connects; an IPv6 address stands in
/// brackets.
///
/// @errors  std::invalid_argument: it is neither
warpverbs::host::TcpAddress ParseMeeting(const std::string& text, bool listens);
