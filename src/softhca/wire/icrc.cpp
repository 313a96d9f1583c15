#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "wire/frame.hpp"
#include "wire/packet.hpp"

namespace softhca {
namespace {

// The headers with variant fields, behind a local route header.
using MaskedHeaders = std::array<uint8_t, kLocalRouteBytes + 40 + kUdpBytes + kBaseHeaderBytes>;

void MaskIp(std::span<uint8_t> ip) {
  if (ip[0] >> 4 == 4) {
    ip[1] = 0xff;                            // type of service
    ip[8] = 0xff;                            // time to live
    std::fill_n(&ip[10], 2, uint8_t{0xff});  // checksum
  } else {
    ip[0] |= 0x0f;  // traffic class and flow label
    std::fill_n(&ip[1], 3, uint8_t{0xff});
    ip[7] = 0xff;  // hop limit
  }
}

/// Copies the headers to `out` with all variant fields set to ones.
///
/// @return  bytes of `out` that are filled in
size_t MaskHeaders(const Frame& frame, MaskedHeaders& out) {
  const std::span<uint8_t> masked(out);
  const std::span<uint8_t> behind = masked.subspan(kLocalRouteBytes);
  size_t transport_at = 0;
  if (frame.ip.empty()) {  // a packet that stays in its subnet
    std::copy(frame.local.begin(), frame.local.end(), out.begin());
    out[0] |= 0xf0;  // virtual lane
  } else {
    // A router replaces the local route header. RoCE has none.
    std::fill_n(out.begin(), kLocalRouteBytes, uint8_t{0xff});
    transport_at = static_cast<size_t>(frame.transport.data() - frame.ip.data());
    std::copy_n(frame.ip.data(), transport_at, behind.begin());
    MaskIp(behind);
    if (transport_at > frame.ip.size())
      std::fill_n(&behind[transport_at - 2], 2, uint8_t{0xff});  // UDP's checksum
  }
  std::copy_n(frame.transport.begin(), kBaseHeaderBytes, &behind[transport_at]);
  behind[transport_at + 4] = 0xff;  // congestion marks
  return kLocalRouteBytes + transport_at + kBaseHeaderBytes;
}

/// Returns the bytes that the VCRC covers.
std::span<const uint8_t> LinkPacket(const Frame& frame) {
  return {frame.local.data(), frame.transport.data() + frame.transport.size()};
}

}  // namespace

uint32_t Icrc(const Frame& frame) {
  MaskedHeaders headers{};
  const uint32_t crc = libdeflate_crc32(0, headers.data(), MaskHeaders(frame, headers));
  const auto rest =
      frame.transport.subspan(kBaseHeaderBytes, frame.transport.size() - kBaseHeaderBytes - kIcrcBytes);
  return libdeflate_crc32(crc, rest.data(), rest.size());
}

bool IsSealed(const Frame& frame) {
  uint32_t stored;
  std::memcpy(&stored, frame.transport.last<kIcrcBytes>().data(), kIcrcBytes);
  if (stored != Icrc(frame)) return false;
  if (!frame.flow.local) return true;
  uint16_t stored_vcrc;
  std::memcpy(&stored_vcrc, frame.transport.data() + frame.transport.size(), kVcrcBytes);
  return stored_vcrc == Vcrc(LinkPacket(frame));
}

void SealFrame(std::span<uint8_t> frame, mlx5::PortType link) {
  const Frame parsed = *ParseFrame(frame, link);
  const auto end = static_cast<size_t>(parsed.transport.data() + parsed.transport.size() - frame.data());
  const uint32_t icrc = Icrc(parsed);
  std::memcpy(&frame[end - kIcrcBytes], &icrc, kIcrcBytes);
  if (!parsed.flow.local) return;
  const uint16_t vcrc = Vcrc(LinkPacket(parsed));
  std::memcpy(&frame[end], &vcrc, kVcrcBytes);
}

}  // namespace softhca
