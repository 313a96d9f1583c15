#include "warpverbs/host/endpoint_info.hpp"

#include <algorithm>

#include "connect/sealed_bytes.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr SealedFormat kEndpointFormat{.magic = 0x57564570,  // "WVEp"
                                       .version = EndpointInfo::kVersion,
                                       .bytes = EndpointInfo::kBytes,
                                       .object = "the peer's endpoint information",
                                       .kind = "endpoint information",
                                       .source = "Pass the result of the peer's Info()"};

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

void EndpointInfo::Check() const {
  const auto refuse = [](const char* field) {
    throw kEndpointFormat.Refusal(std::string(field) + " is out of range", "Take it from the peer's Info()");
  };
  if (qpn == 0 || qpn > 0xffffff) refuse("the queue pair number");
  if (psn > 0xffffff) refuse("the packet sequence number");
  if (link_layer != LinkLayer::kInfiniBand && link_layer != LinkLayer::kEthernet) refuse("the link layer");
  if (gid_type > GidType::kRoceV2) refuse("the GID type");
  if (gid == Gid{}) refuse("the GID");
  if (mtu < mlx5::Mtu::k256 || mtu > mlx5::Mtu::k4096) refuse("the MTU");
}

std::array<uint8_t, EndpointInfo::kBytes> EndpointInfo::ToBytes() const {
  ByteWriter fields = kEndpointFormat.Begin();
  fields.Put(4, qpn);
  fields.Put(4, psn);
  fields.Put(gid.raw);
  fields.Put(2, lid);
  fields.Put(1, static_cast<uint8_t>(link_layer));
  fields.Put(1, static_cast<uint8_t>(gid_type));
  fields.Put(1, static_cast<uint8_t>(mtu));
  fields.Put(1, max_reads_out);
  fields.Put(1, max_reads_in);
  std::array<uint8_t, kBytes> bytes{};
  kEndpointFormat.Seal(fields, bytes);
  return bytes;
}

EndpointInfo EndpointInfo::FromBytes(std::span<const uint8_t> bytes) {
  ByteReader fields = kEndpointFormat.Open(bytes);
  EndpointInfo info;
  info.qpn = static_cast<uint32_t>(fields.Get(4));
  info.psn = static_cast<uint32_t>(fields.Get(4));
  std::ranges::copy(fields.GetBytes(info.gid.raw.size()), info.gid.raw.begin());
  info.lid = static_cast<uint16_t>(fields.Get(2));
  info.link_layer = static_cast<LinkLayer>(fields.Get(1));
  info.gid_type = static_cast<GidType>(fields.Get(1));
  info.mtu = static_cast<mlx5::Mtu>(fields.Get(1));
  info.max_reads_out = static_cast<uint8_t>(fields.Get(1));
  info.max_reads_in = static_cast<uint8_t>(fields.Get(1));
  info.Check();
  return info;
}

std::string EndpointInfo::Serialize() const {
  std::string text;
  for (const uint8_t byte : ToBytes()) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

EndpointInfo EndpointInfo::Parse(std::string_view text) {
  if (text.size() % 2 != 0 || text.find_first_not_of(kDigits) != std::string_view::npos) {
    throw kEndpointFormat.Refusal("it is not whole bytes in lower-case hexadecimal",
                                  SealedFormat::kSendAgain);
  }
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes += static_cast<char>(kDigits.find(text[i]) << 4 | kDigits.find(text[i + 1]));
  }
  return FromBytes({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

uint32_t Crc32(std::span<const uint8_t> bytes) {
  constexpr uint32_t kReversedPolynomial = 0xedb88320;
  uint32_t crc = ~0u;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kReversedPolynomial : 0);
  }
  return ~crc;
}

}  // namespace warpverbs::inline v0_2::host
