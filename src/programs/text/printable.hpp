#pragma once

#include <string>
#include <string_view>

namespace warpverbs::programs {

/// A stranger's words as they may go to a terminal, which obeys control characters: printable ASCII, where
/// all else becomes '?', and not too much of it.
///
/// @param most  letters, of which there may be fewer
inline std::string Printable(std::string_view text, size_t most = 1000) {
  std::string words(text.substr(0, most));
  for (char& letter : words)
    if (letter < ' ' || letter > '~') letter = '?';
  return words;
}

}  // namespace warpverbs::programs
