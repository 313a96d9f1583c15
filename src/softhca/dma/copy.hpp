#pragma once

#include <cstdint>
#include <span>

#include "dma/bytes.hpp"

namespace softhca {

/// Moves a message from one list of pieces to another, in order; stops at the end of the shorter.
///
/// Aligned words of 4 and 8 bytes arrive whole, and the last byte of each piece arrives last.
void Copy(std::span<const Bytes> to, std::span<const Bytes> from);

/// Puts a part of a message, such as a packet's payload, at `offset` of the pieces that it goes to; what
/// would go past their end is left out. Bytes arrive as with Copy().
void CopyPart(std::span<const Bytes> to, uint64_t offset, std::span<const uint8_t> part);

}  // namespace softhca
