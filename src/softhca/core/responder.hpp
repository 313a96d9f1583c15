#pragma once

#include "core/link.hpp"
#include "core/qp.hpp"

namespace softhca {

/// What a message tells of the queue pair that sent it.
struct Origin {
  uint32_t qpn;
  uint32_t psn;   ///< of the message's first packet
  mlx5::Mtu mtu;  ///< payload of all but the last packet
};

/// Executes a request at the queue pair that it was sent to.
Response Respond(QueuePair& target, const Origin& origin, const Request& request);

}  // namespace softhca
