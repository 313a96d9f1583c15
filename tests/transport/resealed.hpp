#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "host/connect/byte_stream.hpp"
#include "transport/text_format.hpp"
#include "transport/url.hpp"
#include "warpverbs/host/endpoint_info.hpp"

/// Forged URLs and keys: their contents are changed and their checksums right, as from a faulty peer.
namespace warpverbs::inline v0_2::transport {

inline constexpr TextFormat kUrlFormat{.kind = "url", .version = Url::kVersion, .object = "a URL"};
inline constexpr TextFormat kKeyFormat{.kind = "key", .version = 1, .object = "an access key"};

/// Corrects the checksums of all complete queue pairs in the contents of a URL.
inline void ResealQueuePairs(std::span<uint8_t> contents) {
  constexpr size_t kHeaderBytes = 16 + 1, kCrcBytes = 4;  // identity of the transport, number of queue pairs
  constexpr size_t kQueuePairBytes = 1 + host::EndpointInfo::kBytes;
  for (size_t end = kHeaderBytes + kQueuePairBytes; end <= contents.size(); end += kQueuePairBytes) {
    const auto endpoint = contents.first(end).last(host::EndpointInfo::kBytes);
    host::ByteWriter crc;
    crc.Put(kCrcBytes, host::Crc32(endpoint.first(endpoint.size() - kCrcBytes)));
    std::copy(crc.bytes().begin(), crc.bytes().end(), endpoint.last(kCrcBytes).begin());
  }
}

/// Changes, cuts off, inserts or removes bytes in one to three places.
inline void Mutate(std::vector<uint8_t>& bytes, std::mt19937& random) {
  for (uint32_t changes = 1 + random() % 3; changes != 0; --changes) {
    const size_t at = random() % (bytes.size() + 1);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t rest = bytes.size() - at;
    switch (random() % 8) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.insert(place, 1 + random() % 64, static_cast<uint8_t>(random()));
        break;
      case 2:
        bytes.erase(place, place + static_cast<std::ptrdiff_t>(std::min<size_t>(rest, 1 + random() % 3)));
        break;
      case 3:
        if (rest != 0) *place = static_cast<uint8_t>(random());
        break;
      default:  // a single bit, which changes less of a field
        if (rest != 0) *place ^= static_cast<uint8_t>(1 << random() % 8);
    }
  }
}

/// Returns a URL with changed contents and the right checksum. In half of the cases the checksums of the
/// queue pairs are wrong.
inline std::string Forge(const std::string& url, std::mt19937& random) {
  std::vector<uint8_t> contents = kUrlFormat.Decode(url);
  Mutate(contents, random);
  if (random() % 2 == 0) ResealQueuePairs(contents);
  return kUrlFormat.Encode(contents);
}

}  // namespace warpverbs::inline v0_2::transport
