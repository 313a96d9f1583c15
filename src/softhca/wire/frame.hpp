#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/config.hpp"

namespace softhca {

inline constexpr uint16_t kRoceUdpPort = 4791;
inline constexpr size_t kUdpBytes = 8;          ///< of its header
inline constexpr size_t kBaseHeaderBytes = 12;  ///< of InfiniBand's transport

/// From where to where a frame goes, and how it wants to be treated there.
struct Flow {
  Mac source_mac{}, destination_mac{};
  Gid source{}, destination{};  ///< IPv4-mapped ones travel over IPv4 (RoCE v2)
  mlx5::RoceVersion version = mlx5::RoceVersion::kV2;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;      ///< 20 bits; IPv6 and RoCE v1 only
  uint16_t source_port = 0;     ///< UDP; RoCE v2 only
  uint16_t identification = 0;  ///< of IPv4: 0 with "don't fragment", as Linux's UDP sockets send it
};

bool IsIpv4(const Gid& gid);  ///< IPv4-mapped

/// Ethernet, IP and UDP for RoCE v2; Ethernet and GRH for RoCE v1.
inline constexpr size_t kMaxFrameHeaderBytes = 14 + 40 + 8;
/// The longest frame: headers, a payload of 4096 bytes, ICRC.
inline constexpr size_t kMaxFrameBytes = kMaxFrameHeaderBytes + 72 + 4096 + 4;

size_t FrameHeaderBytes(const Flow& flow);

/// Writes the headers before a transport packet of `transport_bytes`, ICRC included. UDP's checksum is 0.
///
/// @return  bytes written: FrameHeaderBytes(flow)
size_t WriteFrameHeaders(const Flow& flow, size_t transport_bytes, std::span<uint8_t> out);

/// A received frame; the spans point into it.
struct Frame {
  Flow flow;
  std::span<const uint8_t> transport;  ///< from the base header on, with the ICRC: 16 bytes or more
  std::span<const uint8_t> ip;         ///< IPv4 header, IPv6 header or GRH
};

/// Finds the parts of a frame. What Ethernet appended to reach its shortest frame is left out.
///
/// @return  nothing if it is no RoCE frame: another protocol or UDP port, IP options, a fragment, or cut
///          short
std::optional<Frame> ParseFrame(std::span<const uint8_t> frame);

/// The invariant CRC of a frame whose headers and transport packet are in place; its last four bytes are not
/// looked at.
///
/// @return  as it is stored in those bytes, in the order of the host
/// @source  IBTA 1.4 7.8.1, annexes A16 for RoCE v1 and A17 for RoCE v2
uint32_t Icrc(const Frame& frame);
bool IsSealed(const Frame& frame);
/// Stores the ICRC in the last four bytes.
///
/// @pre  it is a RoCE frame, without anything behind it
void SealFrame(std::span<uint8_t> frame);

}  // namespace softhca
