#pragma once

#include <cstdint>
#include <optional>

#include "core/config.hpp"

/// Loopback addresses and MACs that a process gives to ports without an interface.
///
/// Port p of device d in block b has IPv4 address 127.83.0.0 + 32 b + 2 d + p - 1 and MAC 02:53:48:bb:bb:dp.
/// Each follows from the other, so no lookup protocol is needed.
namespace softhca::address_block {

inline constexpr uint32_t kFirst = 1, kLast = 2047;

/// @param port  from 1; 0 for the device as a whole
Mac MacOf(uint32_t block, uint32_t device, uint32_t port);
Gid Ipv4GidOf(uint32_t block, uint32_t device, uint32_t port);

/// @return  nothing if the address is not in a block
std::optional<uint32_t> BlockOf(const Gid& ipv4);
std::optional<Mac> MacOf(const Gid& ipv4);

}  // namespace softhca::address_block
