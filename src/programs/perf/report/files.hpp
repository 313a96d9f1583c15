#pragma once

#include <string>

namespace warpverbs::perf {

/// Writes a file atomically: readers never see a part of it.
///
/// @errors  std::runtime_error: names the file and the reason
void WriteWhole(const std::string& file, const std::string& text);

/// Checks that WriteWhole() can write a file, without changing it: a run may take hours before it writes.
///
/// @errors  as WriteWhole()
void CheckWritable(const std::string& file);

/// Reads a file.
///
/// @errors  as WriteWhole()
std::string ReadWhole(const std::string& file);

}  // namespace warpverbs::perf
