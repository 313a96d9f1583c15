#pragma once

#include <cstdint>
#include <optional>

#include "core/link.hpp"
#include "core/mkey.hpp"
#include "core/qp.hpp"

namespace softhca {

/// What a message reveals about the queue pair that sent it.
struct Origin {
  uint32_t qpn;
  uint32_t psn;   ///< PSN of the message's first packet
  mlx5::Mtu mtu;  ///< payload size of every packet but the last
};

/// Executes a request at the queue pair that it was sent to.
///
/// Nothing is lost on the way, so only a queue pair that starts again with its first PSN sends a duplicate.
/// Sends and writes are then acknowledged again. Reads and atomics are not answered.
///
/// @source  IBTA 1.4, 9.7.5.1.2
Response Respond(QueuePair& target, const Origin& origin, const Request& request);

/// Memory that a peer's request refers to, or the reason that the peer may not access it.
struct RemoteMemory {
  mlx5::Syndrome refusal = mlx5::Syndrome::kNone;  ///< kNone, or the syndrome that the requester gets
  Bytes bytes{};
};

/// Range of memory as a request names it.
struct RemoteRange {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint64_t bytes = 0;  ///< 0: no memory, and the key is not checked
  std::optional<uint32_t> pdn{};  ///< default: the queue pair's protection domain
};

/// Finds the memory for a peer's request.
///
/// An access that the queue pair does not allow is an invalid request; one that the key does not allow is an
/// access error.
///
/// @param access  right that the request needs, from both the queue pair and the key
/// @source  IBTA 1.4, 9.7.4.1 and 9.9.3
RemoteMemory FindRemoteMemory(const QueuePair& target, const RemoteRange& range, Access access);

}  // namespace softhca
