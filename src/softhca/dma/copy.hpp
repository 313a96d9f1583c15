#pragma once

#include <cstdint>
#include <span>

#include "dma/device_memory.hpp"

namespace softhca {

/// Copies a message from one list of pieces to another, in order; stops at the end of the shorter list.
///
/// Aligned words of 4 and 8 bytes arrive whole, and the last byte of each piece arrives last. In a device's
/// memory the bytes of a piece arrive in any order. A copy to or from a device may still be in flight
/// afterwards: see WaitForCopies().
///
/// @return  false if a device's memory is gone: see IsAccessible()
[[nodiscard]] bool Copy(std::span<const Bytes> to, std::span<const Bytes> from);

/// Copies a part of a message, such as a packet's payload, to `offset` of the message's pieces. Bytes past
/// the end of the pieces are left out. Bytes arrive as with Copy().
///
/// @return  as Copy()
[[nodiscard]] bool CopyPart(std::span<const Bytes> to, uint64_t offset, std::span<const uint8_t> part);

/// Waits for copies in flight to or from devices. Call it before the processor reports the data to the
/// program.
///
/// @return  false if some data did not arrive
[[nodiscard]] bool WaitForCopies();

/// Returns whether the memory can still be read. Tells which side of a failed copy is at fault.
bool IsAccessible(std::span<const Bytes> pieces);

}  // namespace softhca
