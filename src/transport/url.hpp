#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "warpverbs/host/endpoint_info.hpp"

namespace warpverbs::inline v0_2::transport {

/// The description that a transport gives its peer, as one word of text.
struct Url {
  static constexpr uint32_t kVersion = 1;
  static constexpr size_t kMaxQueuePairs = 32;

  /// A queue pair.
  struct QueuePair {
    uint8_t nic = 0;  ///< index of its NIC among the transport's, and of its key in an AccessKey
    host::EndpointInfo endpoint{};
    friend bool operator==(const QueuePair&, const QueuePair&) = default;
  };

  std::array<uint8_t, 16> transport{};   ///< random identity of the transport
  std::vector<QueuePair> queue_pairs{};  ///< queue pairs of equal index connect to each other

  friend bool operator==(const Url&, const Url&) = default;

  std::string ToText() const;

  /// Parses untrusted text.
  ///
  /// @errors  host::Error: the text is no URL of a transport
  static Url FromText(std::string_view text);
};

}  // namespace warpverbs::inline v0_2::transport
