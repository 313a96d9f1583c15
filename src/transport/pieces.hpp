#pragma once

#include <algorithm>
#include <cstdint>

namespace warpverbs::inline v0_2::transport {

/// The pieces of a transfer. Channels carry them in turn (round robin).
struct Pieces {
  uint64_t bytes = 0;        ///< size of the transfer
  uint64_t piece_bytes = 1;  ///< largest size of a piece
  uint32_t channels = 1;     ///< number of channels of the transport
  uint32_t first_channel = 0;

  /// An empty transfer is one empty piece.
  constexpr uint64_t count() const { return bytes == 0 ? 1 : (bytes - 1) / piece_bytes + 1; }
  constexpr uint32_t channels_used() const {
    return static_cast<uint32_t>(std::min<uint64_t>(count(), channels));
  }

  constexpr uint64_t Offset(uint64_t piece) const { return piece * piece_bytes; }
  constexpr uint64_t Size(uint64_t piece) const { return std::min(piece_bytes, bytes - Offset(piece)); }
  constexpr uint32_t Channel(uint64_t piece) const {
    return static_cast<uint32_t>((first_channel + piece) % channels);
  }

  /// Says whether a piece is the last of the transfer on its channel.
  constexpr bool IsLastOnChannel(uint64_t piece) const { return piece + channels_used() >= count(); }
};

}  // namespace warpverbs::inline v0_2::transport
