#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace warpverbs::transport {

/// Bytes as one printable word that says what it is: "warpverbs-url-1-" and hexadecimal digits, of which the
/// last eight are a checksum of all before them.
struct CheckedText {
  std::string_view kind;  ///< "url"
  uint32_t version;
  const char* object;  ///< what errors call it: "the peer's URL"

  std::string Write(std::span<const uint8_t> bytes) const;

  /// @errors  host::Error: of another kind or version, cut off, or changed
  std::vector<uint8_t> Read(std::string_view text) const;
};

}  // namespace warpverbs::transport
