#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/mkey.hpp"
#include "core/qp.hpp"

namespace softhca {

/// Memory that a peer's request refers to, or the reason that the peer may not access it.
struct RemoteMemory {
  mlx5::Syndrome refusal = mlx5::Syndrome::kNone;  ///< kNone, or the syndrome that the requester gets
  Pieces pieces{};

  std::span<const Bytes> span() const { return pieces.span(); }
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
