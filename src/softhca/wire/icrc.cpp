#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "wire/frame.hpp"
#include "wire/packet.hpp"

namespace softhca {
namespace {

// The headers with variant fields, behind eight bytes of ones for a local route header.
constexpr size_t kLocalRouteBytes = 8;
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
  std::fill_n(out.begin(), kLocalRouteBytes, uint8_t{0xff});
  const std::span<uint8_t> ip = masked.subspan(kLocalRouteBytes);
  const uint8_t* const end = frame.transport.data() + kBaseHeaderBytes;
  std::copy(frame.ip.data(), end, ip.begin());
  MaskIp(ip);
  const auto transport_at = static_cast<size_t>(frame.transport.data() - frame.ip.data());
  if (transport_at > frame.ip.size()) std::fill_n(&ip[transport_at - 2], 2, uint8_t{0xff});  // UDP's checksum
  ip[transport_at + 4] = 0xff;  // congestion marks
  return kLocalRouteBytes + transport_at + kBaseHeaderBytes;
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
  return stored == Icrc(frame);
}

void SealFrame(std::span<uint8_t> frame) {
  const uint32_t icrc = Icrc(*ParseFrame(frame));
  std::memcpy(frame.last<kIcrcBytes>().data(), &icrc, kIcrcBytes);
}

}  // namespace softhca
