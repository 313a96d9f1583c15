#pragma once

#include <cstdint>

#include "core/config.hpp"
#include "core/link.hpp"
#include "wire/packet.hpp"

namespace softhca {

/// A packet of a message, and which part of its payload it carries.
struct RequestPacket {
  Packet packet;
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

/// Cuts a packet out of a request of a connected queue pair; addresses and PSN are the caller's.
///
/// @param number  the packet's, from 0. A read's request takes the numbers of its response: starting with a
///                later one asks for the rest
/// @pre    number < PsnCount(request, mtu)
/// @source IBTA 1.4, 9.4 and 9.7.4
RequestPacket CutPacket(const Request& request, uint32_t number, mlx5::Mtu mtu);

}  // namespace softhca
