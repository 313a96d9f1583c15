#pragma once

#include <span>

#include "dma/bytes.hpp"

namespace softhca {

/// Moves a message from one list of pieces to another, in order; stops at the end of the shorter.
///
/// Aligned words of 4 and 8 bytes arrive whole, and the last byte of each piece arrives last.
void Copy(std::span<const Bytes> to, std::span<const Bytes> from);

}  // namespace softhca
