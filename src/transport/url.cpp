#include "url.hpp"

#include <algorithm>

#include "host/connect/byte_stream.hpp"
#include "text_format.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/transport/memory.hpp"

namespace warpverbs::inline v0_2::transport {
namespace {

constexpr TextFormat kFormat{.kind = "url", .version = Url::kVersion, .object = "the URL of a transport"};

}  // namespace

std::string Url::ToText() const {
  host::ByteWriter bytes;
  bytes.Put(transport);
  bytes.Put(1, queue_pairs.size());
  for (const QueuePair& queue_pair : queue_pairs) {
    bytes.Put(1, queue_pair.nic);
    bytes.Put(queue_pair.endpoint.ToBytes());
  }
  return kFormat.Encode(bytes.bytes());
}

Url Url::FromText(std::string_view text) {
  const std::vector<uint8_t> bytes = kFormat.Decode(text);
  const auto refuse = [](const char* reason) {
    throw host::Error("read", kFormat.object, reason, "Pass what the peer's Bind() returned");
  };
  host::ByteReader reader(bytes);
  Url url;
  const auto id = reader.GetBytes(url.transport.size());
  std::copy(id.begin(), id.end(), url.transport.begin());
  const uint64_t count = reader.Get(1);
  if (!reader.ok() || count == 0 || count > kMaxQueuePairs) refuse("it names no queue pairs, or too many");
  for (uint64_t i = 0; i < count; ++i) {
    const auto nic = static_cast<uint8_t>(reader.Get(1));
    const auto endpoint = reader.GetBytes(host::EndpointInfo::kBytes);
    if (!reader.ok()) refuse("it is shorter than it says");
    if (nic >= AccessKey::kMaxNics) refuse("it names a NIC beyond the last");
    url.queue_pairs.push_back({nic, host::EndpointInfo::FromBytes(endpoint)});
  }
  if (!reader.rest().empty()) refuse("it is longer than it says");
  return url;
}

}  // namespace warpverbs::inline v0_2::transport
