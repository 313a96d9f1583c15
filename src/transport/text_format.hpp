#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace warpverbs::inline v0_2::transport {

/// A printable encoding of bytes, with a kind, a version and a checksum: "warpverbs-url-1-" and hexadecimal
/// digits. The last eight digits are a checksum of everything before them.
struct TextFormat {
  std::string_view kind;  ///< "url"
  uint32_t version;
  const char* object;  ///< name in error messages: "the peer's URL"

  std::string Encode(std::span<const uint8_t> bytes) const;

  /// @errors  host::Error: the text is of another kind or version, cut off, or changed
  std::vector<uint8_t> Decode(std::string_view text) const;
};

}  // namespace warpverbs::inline v0_2::transport
