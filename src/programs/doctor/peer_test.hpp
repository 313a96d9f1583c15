#pragma once

#include <string>

#include "common/device_selection.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::programs {

inline constexpr uint16_t kDoctorPort = 18518;

/// The address where the doctors of two machines meet.
struct PeerOptions {
  bool listens = false;
  host::TcpAddress address{};
};

/// Parses "HOST", "HOST:PORT", "[IPV6]:PORT" or, for a listener, "PORT" or "".
///
/// @errors  std::invalid_argument: the text is none of these
host::TcpAddress ParseAddress(const std::string& text, bool listens);

/// Connects to the doctor of another machine. Each writes to the other's memory and verifies the data.
///
/// Waits up to a minute for the peer, and up to ten seconds for each answer.
///
/// @param selection  the NIC, port and GID to use
/// @return  a description of the transfer
/// @errors  Error: no peer connected, or the transfer failed
std::string TestWithPeer(const DeviceSelection& selection, const PeerOptions& options);

}  // namespace warpverbs::programs
