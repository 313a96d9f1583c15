#pragma once

#include <cstdint>

namespace warpverbs::transport {

/// What the immediate data of a write tell the peer.
struct Announcement {
  enum class Kind : uint8_t {
    kPart,      ///< all that one lane carries of a notified write has arrived
    kVoidPart,  ///< the same, but the write was given up half-way: nobody is to be notified
    kHello,     ///< the first message of a lane: whoever acknowledges it is connected
    kReady,     ///< my hello was acknowledged, so this lane will not be reset any more
  };

  static constexpr uint32_t kSequenceBits = 24, kPartsBits = 6;
  static constexpr uint32_t kSequenceMask = (1u << kSequenceBits) - 1;
  static constexpr uint32_t kMaxParts = (1u << kPartsBits) - 1;

  Kind kind = Kind::kPart;
  uint8_t parts = 0;      ///< of the write; 1..kMaxParts
  uint32_t sequence = 0;  ///< of the write among the notified ones, modulo 2^24

  friend bool operator==(const Announcement&, const Announcement&) = default;

  constexpr uint32_t Encode() const {
    return static_cast<uint32_t>(kind) << (kSequenceBits + kPartsBits) |
           (parts & kMaxParts) << kSequenceBits | (sequence & kSequenceMask);
  }
  static constexpr Announcement Decode(uint32_t word) {
    return {static_cast<Kind>(word >> (kSequenceBits + kPartsBits)),
            static_cast<uint8_t>(word >> kSequenceBits & kMaxParts), word & kSequenceMask};
  }
};

}  // namespace warpverbs::transport
