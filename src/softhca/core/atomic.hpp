#pragma once

#include <array>
#include <cstdint>

#include "core/link.hpp"
#include "core/qp.hpp"

namespace softhca {

struct AtomicResult {
  mlx5::Syndrome refusal = mlx5::Syndrome::kNone;  ///< the requester's
  uint64_t old = 0;                                ///< in host order
};

/// Executes an atomic of the peer on the word that it names.
AtomicResult ExecuteAtomic(const QueuePair& target, uint64_t address, uint32_t rkey,
                           const AtomicOperands& operands);

/// Says how an old value lies in the requester's memory: of 8 bytes in the byte order that the device is set
/// to, the host's; of 4 bytes big-endian whatever it is set to.
///
/// @source  openucx/ucx, src/uct/ib/mlx5/dv (`atomic_req_8B_endianness_mode`, `ext_atomic_arg_sizes_be`)
std::array<uint8_t, 8> AtomicAnswer(uint64_t old, uint32_t bytes);

}  // namespace softhca
