#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

/// Returns how many files this process has open.
inline size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}
