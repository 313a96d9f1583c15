#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

/// The tables in tests/data/prm and the text of the headers under test.
namespace prm {

/// A field's offset in its struct and its width, in bits.
struct Place {
  uint32_t bit;
  uint32_t width;
  auto operator<=>(const Place&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, Place place) {
  return out << "bit " << place.bit << ", width " << place.width;
}

/// Maps "struct.field" to its place. "struct.@sizeof" has the size as width.
const std::map<std::string, Place>& Fields();

/// Looks up a field. Fails the test if the table lacks the name.
Place FieldAt(const std::string& name);

/// Maps group and name to a value.
const std::map<std::string, std::map<std::string, uint64_t>>& Values();

/// Returns the text of include/warpverbs/mlx5/`name` without its comments.
std::string Header(const std::string& name);

/// Returns how often a regular expression matches in `text`.
size_t Count(const std::string& text, const std::string& pattern);

/// Returns the names of all headers in include/warpverbs/mlx5.
std::vector<std::string> Headers();

}  // namespace prm
