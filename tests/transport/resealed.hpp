#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "host/connect/byte_stream.hpp"
#include "transport/checked_text.hpp"
#include "transport/url.hpp"
#include "warpverbs/host/endpoint_info.hpp"

/// What a URL or a key carries, changed and sealed again: so are those of a faulty peer, whose checksums are
/// right.
namespace warpverbs::transport {

inline constexpr CheckedText kUrlFormat{.kind = "url", .version = Url::kVersion, .object = "a URL"};
inline constexpr CheckedText kKeyFormat{.kind = "key", .version = 1, .object = "an access key"};

/// Makes the checksums right of all queue pairs that are whole in what a URL carries.
inline void ResealQueuePairs(std::span<uint8_t> carried) {
  constexpr size_t kBeforeLanes = 16 + 1, kCrcBytes = 4;  // the transport, and how many lanes
  constexpr size_t kLaneBytes = 1 + host::EndpointInfo::kBytes;
  for (size_t end = kBeforeLanes + kLaneBytes; end <= carried.size(); end += kLaneBytes) {
    const auto endpoint = carried.first(end).last(host::EndpointInfo::kBytes);
    host::ByteWriter crc;
    crc.Put(kCrcBytes, host::Crc32(endpoint.first(endpoint.size() - kCrcBytes)));
    std::copy(crc.bytes().begin(), crc.bytes().end(), endpoint.last(kCrcBytes).begin());
  }
}

/// Changes, cuts off, puts in or takes out bytes, in one place to three.
inline void Mutate(std::vector<uint8_t>& bytes, std::mt19937& random) {
  for (uint32_t changes = 1 + random() % 3; changes != 0; --changes) {
    const size_t at = random() % (bytes.size() + 1);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t behind = bytes.size() - at;
    switch (random() % 8) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.insert(place, 1 + random() % 64, static_cast<uint8_t>(random()));
        break;
      case 2:
        bytes.erase(place, place + static_cast<std::ptrdiff_t>(std::min<size_t>(behind, 1 + random() % 3)));
        break;
      case 3:
        if (behind != 0) *place = static_cast<uint8_t>(random());
        break;
      default:  // a bit, which leaves more of a field as it was
        if (behind != 0) *place ^= static_cast<uint8_t>(1 << random() % 8);
    }
  }
}

/// A URL like another, but for changes that no checksum shows. Half of them leave the checksums of the queue
/// pairs to be wrong.
inline std::string Mutant(const std::string& url, std::mt19937& random) {
  std::vector<uint8_t> carried = kUrlFormat.Read(url);
  Mutate(carried, random);
  if (random() % 2 == 0) ResealQueuePairs(carried);
  return kUrlFormat.Write(carried);
}

}  // namespace warpverbs::transport
