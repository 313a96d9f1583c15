#include "warpverbs/host/exchange.hpp"

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

std::string PrintableText(std::string_view text, size_t most) {
  std::string printable(text.substr(0, most));
  for (char& letter : printable)
    if (letter < ' ' || letter > '~') letter = '?';
  return printable;
}

void Exchange::CheckSize(size_t theirs, size_t mine, std::string_view what) const {
  if (theirs == mine) return;
  throw Error("swap", std::string(what) + " with " + PeerName(),
              "the peer sent " + std::to_string(theirs) + " bytes, and this side " + std::to_string(mine),
              "Run the same version of the program on both sides");
}

}  // namespace warpverbs::inline v0_2::host
