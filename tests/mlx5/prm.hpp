#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

/// The tables in tests/data/prm and the text of the headers under test.
namespace prm {

/// Where a field lies in its struct, in bits.
struct Place {
  uint32_t bit;
  uint32_t width;
  auto operator<=>(const Place&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, Place place) {
  return out << "bit " << place.bit << ", width " << place.width;
}

/// "struct.field" -> place; "struct.@sizeof" has the size as width.
const std::map<std::string, Place>& Fields();

/// Looks a field up; a name that the table lacks fails the test.
Place FieldAt(const std::string& name);

/// group -> name -> value.
const std::map<std::string, std::map<std::string, uint64_t>>& Values();

/// The text of include/warpverbs/mlx5/`name`, without its comments.
std::string Header(const std::string& name);

/// How often a regular expression matches in `text`.
size_t Count(const std::string& text, const std::string& pattern);

/// The names of all headers in include/warpverbs/mlx5.
std::vector<std::string> Headers();

}  // namespace prm
