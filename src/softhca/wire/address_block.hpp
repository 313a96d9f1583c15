#pragma once

#include <cstdint>
#include <optional>

#include "core/config.hpp"

/// The loopback addresses and MACs that a process gives to its ports, unless they have those of interfaces.
///
/// Port p of device d in block b has 127.83.0.0 + 32 b + 2 d + p - 1, and 02:53:48:bb:bb:dp. So each tells
/// the other, and nobody has to be asked.
namespace softhca::address_block {

inline constexpr uint32_t kFirst = 1, kLast = 2047;

/// @param port  from 1; 0 stands for the device as a whole
Mac MacOf(uint32_t block, uint32_t device, uint32_t port);
Gid Ipv4GidOf(uint32_t block, uint32_t device, uint32_t port);

/// @return  nothing for an address of another kind
std::optional<uint32_t> BlockOf(const Gid& ipv4);
std::optional<Mac> MacOf(const Gid& ipv4);

}  // namespace softhca::address_block
