#pragma once

#include <algorithm>
#include <cstdint>

namespace warpverbs::inline v0_2::transport {

/// A piece of a part of a transfer.
struct PieceRange {
  uint64_t offset, bytes;
};

/// The pieces of a transfer. Channels carry them in turn (round robin).
struct Pieces {
  uint64_t count = 1;
  uint32_t channels = 1;  ///< number of channels of the transport
  uint32_t first_channel = 0;

  /// Returns the pieces of a part of a transfer; an empty part is one empty piece.
  static constexpr uint64_t CountOf(uint64_t bytes, uint64_t piece_bytes) {
    return bytes == 0 ? 1 : (bytes - 1) / piece_bytes + 1;
  }

  constexpr uint32_t channels_used() const {
    return static_cast<uint32_t>(std::min<uint64_t>(count, channels));
  }
  constexpr uint32_t Channel(uint64_t piece) const {
    return static_cast<uint32_t>((first_channel + piece) % channels);
  }

  /// Says whether a piece is the last of the transfer on its channel.
  constexpr bool IsLastOnChannel(uint64_t piece) const { return piece + channels_used() >= count; }
};

}  // namespace warpverbs::inline v0_2::transport
