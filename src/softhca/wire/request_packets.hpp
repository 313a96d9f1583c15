#pragma once

#include <cstdint>

#include "core/config.hpp"
#include "core/link.hpp"
#include "wire/packet.hpp"

namespace softhca {

/// A packet of a message, and the part of the payload that it carries.
struct RequestPacket {
  Packet packet;
  uint64_t offset = 0;  ///< place of the part in the payload
  uint32_t bytes = 0;   ///< size of the part; 0 in requests for data
};

/// Builds a packet of a connected queue pair's request. The caller fills in destination and PSN.
///
/// @param number  number of the packet, from 0. A read request takes as many numbers as its response has
///                packets; a number above 0 requests the rest of the response
/// @pre     number < PsnCount(request, mtu)
/// @source  IBTA 1.4, 9.4 and 9.7.4
RequestPacket CutPacket(const Request& request, uint32_t number, mlx5::Mtu mtu);

}  // namespace softhca
