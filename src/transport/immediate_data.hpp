#pragma once

#include <cstdint>

namespace warpverbs::inline v0_2::transport {

/// The message in the immediate data of a write.
struct ImmediateData {
  enum class Kind : uint8_t {
    kPart,           ///< one channel's share of a notified write has arrived
    kCancelledPart,  ///< one channel's share of a write that was given up: it notifies no one
    kHello,          ///< first message of a channel; a peer that acknowledges it is connected
    kReady,          ///< the sender's hello was acknowledged: it knows that the receiver is connected
  };

  static constexpr uint32_t kSequenceBits = 24, kPartsBits = 6;
  static constexpr uint32_t kSequenceMask = (1u << kSequenceBits) - 1;
  static constexpr uint32_t kMaxParts = (1u << kPartsBits) - 1;

  Kind kind = Kind::kPart;
  uint8_t parts = 0;      ///< number of parts of the write; 1..kMaxParts
  uint32_t sequence = 0;  ///< index of the write among all notified writes, modulo 2^24

  friend bool operator==(const ImmediateData&, const ImmediateData&) = default;

  constexpr uint32_t Encode() const {
    return static_cast<uint32_t>(kind) << (kSequenceBits + kPartsBits) |
           (parts & kMaxParts) << kSequenceBits | (sequence & kSequenceMask);
  }
  static constexpr ImmediateData Decode(uint32_t word) {
    return {static_cast<Kind>(word >> (kSequenceBits + kPartsBits)),
            static_cast<uint8_t>(word >> kSequenceBits & kMaxParts), word & kSequenceMask};
  }
};

}  // namespace warpverbs::inline v0_2::transport
