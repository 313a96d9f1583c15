#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/// Representation of IP addresses and ports in communication management.
///
/// @source  IBTA 1.4, annex A11
namespace softhca::cm {

/// Protocols with ports, by their number in a service id.
enum class PortSpace : uint16_t { kTcp = 0x0106, kUdp = 0x0111 };

constexpr uint64_t ServiceId(PortSpace space, uint16_t port) {
  return uint64_t{static_cast<uint16_t>(space)} << 16 | port;
}

/// An IP address; IPv4 is in the last four bytes.
using IpAddress = std::array<uint8_t, 16>;

/// Header before the private data of a REQ or SIDR_REQ.
struct IpHeader {
  static constexpr size_t kBytes = 36;
  bool ipv6 = false;
  uint16_t source_port = 0;
  IpAddress source{}, destination{};
  friend bool operator==(const IpHeader&, const IpHeader&) = default;
};

/// @pre  `out` has kBytes
void Write(const IpHeader& header, std::span<uint8_t> out);

/// @return  nothing if the version is unknown, or the header is for neither IPv4 nor IPv6
/// @pre     `in` has kBytes
std::optional<IpHeader> ReadIpHeader(std::span<const uint8_t> in);

}  // namespace softhca::cm
