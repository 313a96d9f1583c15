#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace warpverbs::host {

/// Reads a file's first line; empty if it cannot be read, which with hardware that comes and goes is no
/// error.
std::string ReadLine(const std::filesystem::path& file);

/// Reads a number in decimal, or in hexadecimal after "0x".
std::optional<long> ReadNumber(const std::filesystem::path& file);

/// Names what is in a folder, in the order of the names. A folder that is not there is empty.
std::vector<std::string> NamesIn(const std::filesystem::path& folder);

}  // namespace warpverbs::host
