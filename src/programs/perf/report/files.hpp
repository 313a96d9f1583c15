#pragma once

#include <string>

namespace warpverbs::perf {

/// Writes a file so that nobody ever sees a part of it.
///
/// @errors  std::runtime_error: names the file and the reason
void WriteWhole(const std::string& file, const std::string& text);

/// Tries whether WriteWhole() would write a file, and leaves that as it is: before hours are spent on what it
/// is to hold.
///
/// @errors  likewise
void CheckWritable(const std::string& file);

/// @errors  likewise
std::string ReadWhole(const std::string& file);

}  // namespace warpverbs::perf
