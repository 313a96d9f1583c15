#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/config.hpp"
#include "wire/local_route.hpp"

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
  std::optional<LocalRoute> local{};  ///< InfiniBand only; in place of the MACs
  bool grh = true;                    ///< false, on InfiniBand only: no GRH, and so no GIDs
};

/// Returns the link layer that a flow's frames are of.
inline mlx5::PortType LinkOf(const Flow& flow) {
  return flow.local ? mlx5::PortType::kInfiniBand : mlx5::PortType::kEthernet;
}

/// Returns whether a GID is an IPv4-mapped address.
bool IsIpv4(const Gid& gid);

/// Returns whether a GID is a multicast group: an IPv6 one or an IPv4-mapped one.
bool IsMulticast(const Gid& gid);

/// Returns whether frames go to the members of a multicast group: by LID on InfiniBand, otherwise by GID.
bool IsToGroup(const Flow& flow);

/// Longest network headers: Ethernet, IPv6 and UDP for RoCE v2. RoCE v1 has Ethernet and GRH, InfiniBand a
/// local route header, a GRH and two bytes after the ICRC.
inline constexpr size_t kMaxFrameHeaderBytes = 14 + 40 + 8;
/// Longest frame: headers, 4096 bytes of payload, ICRC.
inline constexpr size_t kMaxFrameBytes = kMaxFrameHeaderBytes + 72 + 4096 + 4;

size_t FrameHeaderBytes(const Flow& flow);
/// Returns the bytes after the ICRC: InfiniBand's VCRC.
size_t FrameTrailerBytes(const Flow& flow);

/// Writes the headers in front of a transport packet. The UDP checksum is 0.
///
/// @param transport_bytes  size of the transport packet, ICRC included
/// @return  bytes written: FrameHeaderBytes(flow)
size_t WriteFrameHeaders(const Flow& flow, size_t transport_bytes, std::span<uint8_t> out);

/// A received frame; the spans point into it.
struct Frame {
  Flow flow;
  std::span<const uint8_t> transport;  ///< base header to ICRC, at least 16 bytes; then InfiniBand's VCRC
  std::span<const uint8_t> ip;         ///< IPv4 header, IPv6 header or GRH; empty: none
  std::span<const uint8_t> local{};    ///< local route header; InfiniBand only
};

/// Finds the parts of a frame. Ethernet's padding is left out.
///
/// @param link  link layer that the frame comes from: a frame does not tell
/// @return  nothing if it is no RDMA frame: another protocol or UDP port, IP options, a fragment, a packet of
///          InfiniBand without a base header, another length than the header's, or cut short
std::optional<Frame> ParseFrame(std::span<const uint8_t> frame,
                                mlx5::PortType link = mlx5::PortType::kEthernet);

/// Computes the invariant CRC of a complete frame; the transport's last four bytes, the ICRC itself, are
/// ignored.
///
/// @return  the value of those four bytes as a host-order integer
/// @source  IBTA 1.4, 7.8.1, annexes A16 for RoCE v1 and A17 for RoCE v2
uint32_t Icrc(const Frame& frame);
/// Returns whether a frame's CRCs are right: the ICRC, and on InfiniBand the VCRC.
bool IsSealed(const Frame& frame);
/// Stores the CRCs.
///
/// @pre  ParseFrame() accepts the frame
void SealFrame(std::span<uint8_t> frame, mlx5::PortType link = mlx5::PortType::kEthernet);

}  // namespace softhca
