#pragma once

#include <cstdint>

#include "core/mkey.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace softhca {

/// Returns the bytes of memory that a data segment names. A length of 0 means 2 GiB.
inline uint64_t SizeOf(const mlx5::DataSegment& segment) {
  const uint32_t bytes = mlx5::FromBe(segment.bytes);
  return bytes == 0 ? mlx5::kMaxDataBytes : bytes;
}

/// Returns the piece of an indirect key that a KLM names. A length of 0 means 2 GiB.
inline Layout::Piece PieceOf(const mlx5::KlmSegment& klm) {
  const uint32_t bytes = mlx5::FromBe(klm.bytes);
  return {mlx5::FromBe(klm.key), mlx5::FromBe(klm.address), bytes == 0 ? mlx5::kMaxDataBytes : bytes};
}

}  // namespace softhca
