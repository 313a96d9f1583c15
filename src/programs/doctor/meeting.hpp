#pragma once

#include <string>

#include "common/fabric.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::programs {

inline constexpr uint16_t kDoctorPort = 18518;

/// Where two doctors meet, each on its machine.
struct Meeting {
  bool listens = false;
  host::TcpAddress address{};
};

/// Reads "HOST", "HOST:PORT", "[IPV6]:PORT" or, for one who listens, "PORT" or nothing.
///
/// @errors  std::invalid_argument: none of these
host::TcpAddress ParseAddress(const std::string& text, bool listens);

/// Meets the other doctor; each writes to the other's memory and verifies what it got.
///
/// Waits a minute for the other to come, and ten seconds for each answer.
///
/// @param fabric  which NIC, port and GID to use, and how
/// @return  what was done, in words
/// @errors  Error: nobody came, or the data did not
std::string Meet(const Fabric& fabric, const Meeting& meeting);

}  // namespace warpverbs::programs
