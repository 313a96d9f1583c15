#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace warpverbs::inline v0_2::host {

/// Reads a file's first line. Returns "" if it cannot be read, which is normal while hardware comes and goes.
std::string ReadLine(const std::filesystem::path& file);

/// Reads a number in decimal, or in hexadecimal after "0x".
std::optional<long> ReadNumber(const std::filesystem::path& file);

/// Returns the sorted names in a folder. A missing folder is empty.
std::vector<std::string> NamesIn(const std::filesystem::path& folder);

}  // namespace warpverbs::inline v0_2::host
