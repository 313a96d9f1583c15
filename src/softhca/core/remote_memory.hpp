#pragma once

#include <cstdint>

#include "core/mkey.hpp"
#include "core/qp.hpp"
#include "dma/bytes.hpp"

namespace softhca {

/// What a peer names by a key, or why it may not.
struct RemoteMemory {
  mlx5::Syndrome refusal = mlx5::Syndrome::kNone;  ///< the requester's
  Bytes bytes{};
};

/// Memory as a request names it.
struct RemoteRange {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint64_t bytes = 0;  ///< 0: names no memory, so its key is not looked at
};

/// Finds memory for a request of the peer.
///
/// @param access  the right that the request needs, of the queue pair and of the key
/// @source  IBTA 1.4, 9.7.4.1 and 9.9.3: what the queue pair does not allow is an invalid request, what the
///          key does not allow an access error
RemoteMemory FindRemoteMemory(const QueuePair& target, const RemoteRange& range, Access access);

}  // namespace softhca
