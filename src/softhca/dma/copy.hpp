#pragma once

#include <cstdint>
#include <span>

#include "dma/bytes.hpp"

namespace softhca {

/// Moves a message from one list of pieces to another, in order; stops at the end of the shorter.
///
/// Aligned words of 4 and 8 bytes arrive whole, and the last byte of each piece arrives last; to a device's
/// memory go the bytes of a piece in any order. What goes to or from a device may still be under way
/// afterwards: see SettleData().
///
/// @return  false if memory of a device is gone: see IsThere()
[[nodiscard]] bool Copy(std::span<const Bytes> to, std::span<const Bytes> from);

/// Puts a part of a message, such as a packet's payload, at `offset` of the pieces that it goes to; what
/// would go past their end is left out. Bytes arrive as with Copy().
///
/// @return  as Copy()
[[nodiscard]] bool CopyPart(std::span<const Bytes> to, uint64_t offset, std::span<const uint8_t> part);

/// Waits for data that are on their way to or from devices: to be called before the processor tells the
/// program of them.
///
/// @return  false if some never came
[[nodiscard]] bool SettleData();

/// Whether the memory can still be read: of a copy that failed, whose fault it was.
bool IsThere(std::span<const Bytes> pieces);

}  // namespace softhca
