#pragma once

#include <cstdint>

#include "core/link.hpp"
#include "core/qp.hpp"

namespace softhca {

/// What a message reveals about the queue pair that sent it.
struct Origin {
  uint32_t qpn;
  uint32_t psn;   ///< PSN of the message's first packet
  mlx5::Mtu mtu;  ///< payload size of every packet but the last
};

/// Executes a message at the queue pair that it was sent to.
///
/// Nothing is lost on the way, so only a queue pair that starts again with its first PSN sends a duplicate.
/// Sends and writes are then acknowledged again. Reads and atomics are not answered.
///
/// @source  IBTA 1.4, 9.7.5.1.2
Response Respond(QueuePair& target, const Origin& origin, const Request& request);

}  // namespace softhca
