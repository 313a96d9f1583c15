#include "topology/sysfs.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace warpverbs::inline v0_2::host {

std::string ReadLine(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::optional<long> ReadNumber(const std::filesystem::path& file) {
  const std::string line = ReadLine(file);
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(line.c_str(), &end, line.starts_with("0x") ? 16 : 10);
  if (end == line.c_str() || *end != '\0' || errno != 0) return std::nullopt;
  return number;
}

std::vector<std::string> NamesIn(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace warpverbs::inline v0_2::host
