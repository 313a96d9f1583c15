#pragma once

#include "core/link.hpp"
#include "core/qp.hpp"

namespace softhca {

/// What a message reveals about the queue pair that sent it.
struct Origin {
  uint32_t qpn;
  uint32_t psn;   ///< PSN of the message's first packet
  mlx5::Mtu mtu;  ///< payload size of every packet but the last
};

/// Executes a request at the queue pair that it was sent to.
Response Respond(QueuePair& target, const Origin& origin, const Request& request);

}  // namespace softhca
