#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/config.hpp"

namespace softhca {

inline constexpr uint16_t kRoceUdpPort = 4791;
inline constexpr size_t kUdpBytes = 8;          ///< size of the UDP header
inline constexpr size_t kBaseHeaderBytes = 12;  ///< size of the InfiniBand base transport header

/// Source, destination and handling of a frame: the contents of its network headers.
struct Flow {
  Mac source_mac{}, destination_mac{};
  Gid source{}, destination{};  ///< IPv4-mapped ones travel over IPv4 (RoCE v2)
  mlx5::RoceVersion version = mlx5::RoceVersion::kV2;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;      ///< 20 bits; IPv6 and RoCE v1 only
  uint16_t source_port = 0;     ///< UDP; RoCE v2 only
  uint16_t identification = 0;  ///< IPv4 only; 0 with "don't fragment", as Linux's UDP sockets send it
};

/// Returns whether a GID is an IPv4-mapped address.
bool IsIpv4(const Gid& gid);

/// Returns whether a GID is a multicast group: an IPv6 one or an IPv4-mapped one.
bool IsMulticast(const Gid& gid);

/// Longest network headers: Ethernet, IPv6 and UDP for RoCE v2. RoCE v1 has Ethernet and GRH.
inline constexpr size_t kMaxFrameHeaderBytes = 14 + 40 + 8;
/// Longest frame: headers, 4096 bytes of payload, ICRC.
inline constexpr size_t kMaxFrameBytes = kMaxFrameHeaderBytes + 72 + 4096 + 4;

size_t FrameHeaderBytes(const Flow& flow);

/// Writes the headers in front of a transport packet. The UDP checksum is 0.
///
/// @param transport_bytes  size of the transport packet, ICRC included
/// @return  bytes written: FrameHeaderBytes(flow)
size_t WriteFrameHeaders(const Flow& flow, size_t transport_bytes, std::span<uint8_t> out);

/// A received frame; the spans point into it.
struct Frame {
  Flow flow;
  std::span<const uint8_t> transport;  ///< base header to ICRC, at least 16 bytes
  std::span<const uint8_t> ip;         ///< IPv4 header, IPv6 header or GRH
};

/// Finds the parts of a frame. Ethernet's padding is left out.
///
/// @return  nothing if it is not a RoCE frame: another protocol or UDP port, IP options, a fragment, or cut
///          short
std::optional<Frame> ParseFrame(std::span<const uint8_t> frame);

/// Computes the invariant CRC of a complete frame; the last four bytes, the ICRC itself, are ignored.
///
/// @return  the value of those four bytes as a host-order integer
/// @source  IBTA 1.4, 7.8.1, annexes A16 for RoCE v1 and A17 for RoCE v2
uint32_t Icrc(const Frame& frame);
/// Returns whether a frame's ICRC is right.
bool IsSealed(const Frame& frame);
/// Stores the ICRC in the last four bytes.
///
/// @pre  `frame` is a RoCE frame without padding
void SealFrame(std::span<uint8_t> frame);

}  // namespace softhca
