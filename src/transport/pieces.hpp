#pragma once

#include <algorithm>
#include <cstdint>

namespace warpverbs::transport {

/// How a transfer is cut into pieces, and which lane carries each: the pieces go round the lanes.
struct Pieces {
  uint64_t bytes = 0;        ///< of the transfer
  uint64_t piece_bytes = 1;  ///< at most, of a piece
  uint32_t lanes = 1;        ///< of the transport
  uint32_t first_lane = 0;

  /// An empty transfer is one empty piece.
  constexpr uint64_t count() const { return bytes == 0 ? 1 : (bytes - 1) / piece_bytes + 1; }
  constexpr uint32_t lanes_used() const { return static_cast<uint32_t>(std::min<uint64_t>(count(), lanes)); }

  constexpr uint64_t Offset(uint64_t piece) const { return piece * piece_bytes; }
  constexpr uint64_t Size(uint64_t piece) const { return std::min(piece_bytes, bytes - Offset(piece)); }
  constexpr uint32_t Lane(uint64_t piece) const {
    return static_cast<uint32_t>((first_lane + piece) % lanes);
  }

  /// Whether a lane carries nothing of the transfer behind this piece.
  constexpr bool IsLastOfLane(uint64_t piece) const { return piece + lanes_used() >= count(); }
};

}  // namespace warpverbs::transport
