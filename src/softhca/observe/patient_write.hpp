#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

namespace softhca {

/// Writes to a descriptor, blocking or not, until all is written or `timeout` is over.
///
/// A reader that does not read must not stop the hardware. Raises no signal: neither SIGPIPE, where the
/// reader is gone, nor SIGXFSZ, where a file would exceed its limit.
///
/// @param error  set to 0 if all was written, EAGAIN if the reader was too slow, otherwise the failure
/// @return       the number of bytes written
size_t WriteFor(std::chrono::milliseconds timeout, int descriptor, std::span<const uint8_t> bytes,
                int& error);

/// Prints "softhca: ", the text and a newline to standard error. If nobody reads it, the text is lost.
void PrintError(const std::string& text);

}  // namespace softhca
