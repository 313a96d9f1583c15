#pragma once

#include <array>
#include <cstdint>

#include "core/link.hpp"
#include "core/qp.hpp"

namespace softhca {

struct AtomicResult {
  mlx5::Syndrome refusal = mlx5::Syndrome::kNone;  ///< kNone, or the syndrome that the requester gets
  uint64_t old = 0;                                ///< value before the operation, in host order
};

/// Executes a peer's atomic on the word at `address`.
AtomicResult ExecuteAtomic(const QueuePair& target, uint64_t address, uint32_t rkey,
                           const AtomicOperands& operands);

/// Encodes the old value for the requester's memory.
///
/// 8 bytes are in the byte order that the device is configured for: host order. 4 bytes are always
/// big-endian.
///
/// @source  openucx/ucx, src/uct/ib/mlx5/dv (`atomic_req_8B_endianness_mode`, `ext_atomic_arg_sizes_be`)
std::array<uint8_t, 8> EncodeAtomicResponse(uint64_t old, uint32_t bytes);

}  // namespace softhca
