#pragma once

#include <string_view>

namespace warpverbs::host {

/// Writes a line to stderr, and waits 100 ms at most for who reads it: no thread of the library stands still
/// for its log. A line for which there is no room by then is left out, and so are those after it, at once;
/// the next one that finds room comes behind their number.
///
/// Others that write to the same pipe may take the room that was found; then this waits for the reader.
///
/// @param line  with its end
void WriteToStderr(std::string_view line);

}  // namespace warpverbs::host
