#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "warpverbs/host/endpoint_info.hpp"

namespace warpverbs::transport {

/// What a transport tells its peer, as one word of text.
struct Url {
  static constexpr uint32_t kVersion = 1;
  static constexpr size_t kMaxLanes = 32;

  /// A queue pair.
  struct Lane {
    uint8_t nic = 0;  ///< which of the transport's NICs it is on: which key of an AccessKey counts
    host::EndpointInfo endpoint{};
    friend bool operator==(const Lane&, const Lane&) = default;
  };

  std::array<uint8_t, 16> transport{};  ///< random: tells transports apart
  std::vector<Lane> lanes{};            ///< those of the same index connect

  friend bool operator==(const Url&, const Url&) = default;

  std::string ToText() const;

  /// Reads any bytes, of whomever.
  ///
  /// @errors  host::Error: a sentence
  static Url FromText(std::string_view text);
};

}  // namespace warpverbs::transport
