#include "warpverbs/host/endpoint_info.hpp"

#include <algorithm>

#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

// Offsets in the bytes. All numbers are in network order.
constexpr uint32_t kMagic = 0x57564570;  // "WVEp"
constexpr size_t kMagicAt = 0, kVersionAt = 4, kLengthAt = 6, kQpnAt = 8, kPsnAt = 12, kGidAt = 16,
                 kLidAt = 32;
constexpr size_t kLinkLayerAt = 34, kGidTypeAt = 35, kMtuAt = 36, kReadsOutAt = 37, kReadsInAt = 38,
                 kCrcAt = 44;
static_assert(kCrcAt + 4 == EndpointInfo::kBytes);

constexpr std::string_view kDigits = "0123456789abcdef";

void Put(std::span<uint8_t> bytes, size_t at, size_t count, uint32_t value) {
  for (size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<uint8_t>(value >> 8 * (count - 1 - i));
}

uint32_t Get(std::span<const uint8_t> bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value = value << 8 | bytes[at + i];
  return value;
}

Error Refusal(const std::string& reason, const std::string& remedy) {
  return {"read", "the peer's endpoint information", reason, remedy};
}

constexpr char kSendAgain[] = "Send it again, whole and unchanged";

}  // namespace

void EndpointInfo::Check() const {
  const auto refuse = [](const char* field) {
    throw Refusal(std::string(field) + " is out of range", "Take it from the peer's Info()");
  };
  if (qpn == 0 || qpn > 0xffffff) refuse("the queue pair number");
  if (psn > 0xffffff) refuse("the packet sequence number");
  if (link_layer != LinkLayer::kInfiniBand && link_layer != LinkLayer::kEthernet) refuse("the link layer");
  if (gid_type > GidType::kRoceV2) refuse("the GID type");
  if (gid == Gid{}) refuse("the GID");
  if (mtu < mlx5::Mtu::k256 || mtu > mlx5::Mtu::k4096) refuse("the MTU");
}

std::array<uint8_t, EndpointInfo::kBytes> EndpointInfo::ToBytes() const {
  std::array<uint8_t, kBytes> bytes{};
  Put(bytes, kMagicAt, 4, kMagic);
  Put(bytes, kVersionAt, 2, kVersion);
  Put(bytes, kLengthAt, 2, kBytes);
  Put(bytes, kQpnAt, 4, qpn);
  Put(bytes, kPsnAt, 4, psn);
  std::copy(gid.raw.begin(), gid.raw.end(), bytes.begin() + kGidAt);
  Put(bytes, kLidAt, 2, lid);
  Put(bytes, kLinkLayerAt, 1, static_cast<uint32_t>(link_layer));
  Put(bytes, kGidTypeAt, 1, static_cast<uint32_t>(gid_type));
  Put(bytes, kMtuAt, 1, static_cast<uint32_t>(mtu));
  Put(bytes, kReadsOutAt, 1, max_reads_out);
  Put(bytes, kReadsInAt, 1, max_reads_in);
  Put(bytes, kCrcAt, 4, Crc32(std::span(bytes).first(kCrcAt)));
  return bytes;
}

EndpointInfo EndpointInfo::FromBytes(std::span<const uint8_t> bytes) {
  if (bytes.size() < kVersionAt || Get(bytes, kMagicAt, 4) != kMagic) {
    throw Refusal("it does not begin as endpoint information does", "Pass what the peer's Info() made");
  }
  // The version goes before the length: another version may have another length.
  if (bytes.size() >= kLengthAt && Get(bytes, kVersionAt, 2) != kVersion) {
    throw Refusal(
        "it has version " + std::to_string(Get(bytes, kVersionAt, 2)) + ", not " + std::to_string(kVersion),
        "Use the same release of warpverbs on both sides");
  }
  if (bytes.size() != kBytes || Get(bytes, kLengthAt, 2) != kBytes) {
    throw Refusal("it has " + std::to_string(bytes.size()) + " bytes, not " + std::to_string(kBytes),
                  kSendAgain);
  }
  if (Get(bytes, kCrcAt, 4) != Crc32(bytes.first(kCrcAt))) throw Refusal("its checksum is wrong", kSendAgain);
  EndpointInfo info;
  info.qpn = Get(bytes, kQpnAt, 4);
  info.psn = Get(bytes, kPsnAt, 4);
  std::copy_n(bytes.begin() + kGidAt, info.gid.raw.size(), info.gid.raw.begin());
  info.lid = static_cast<uint16_t>(Get(bytes, kLidAt, 2));
  info.link_layer = static_cast<LinkLayer>(bytes[kLinkLayerAt]);
  info.gid_type = static_cast<GidType>(bytes[kGidTypeAt]);
  info.mtu = static_cast<mlx5::Mtu>(bytes[kMtuAt]);
  info.max_reads_out = bytes[kReadsOutAt];
  info.max_reads_in = bytes[kReadsInAt];
  info.Check();
  return info;
}

std::string EndpointInfo::ToText() const {
  std::string text;
  for (const uint8_t byte : ToBytes()) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

EndpointInfo EndpointInfo::FromText(std::string_view text) {
  if (text.size() % 2 != 0 || text.find_first_not_of(kDigits) != std::string_view::npos) {
    throw Refusal("it is not whole bytes in lower-case hexadecimal", kSendAgain);
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

}  // namespace warpverbs::host
