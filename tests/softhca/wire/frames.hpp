#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "wire/frame.hpp"
#include "wire/packet.hpp"

namespace softhca {

/// Returns a whole frame as the wire carries it.
inline std::vector<uint8_t> MakeFrame(const Flow& flow, const Packet& packet,
                                      std::span<const uint8_t> payload = {}) {
  std::array<uint8_t, kMaxPacketHeaderBytes> headers;
  const size_t header_bytes = EncodeHeaders(packet, payload.size(), headers);
  const size_t transport_bytes = header_bytes + payload.size() + PadBytes(payload.size()) + kIcrcBytes;
  std::vector<uint8_t> frame(FrameHeaderBytes(flow) + transport_bytes + FrameTrailerBytes(flow));
  auto at = frame.begin() + static_cast<ptrdiff_t>(WriteFrameHeaders(flow, transport_bytes, frame));
  at = std::copy_n(headers.begin(), header_bytes, at);
  std::copy(payload.begin(), payload.end(), at);
  SealFrame(frame, LinkOf(flow));
  return frame;
}

/// Returns the packet in a frame.
inline std::optional<Packet> DecodeFrame(std::span<const uint8_t> frame) {
  const std::optional<Frame> parsed = ParseFrame(frame);
  if (!parsed) return std::nullopt;
  return Decode(parsed->transport.first(parsed->transport.size() - kIcrcBytes));
}

inline Gid Ipv4Gid(uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, last}; }
inline Gid Ipv6Gid(uint8_t last) { return {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}; }

/// Returns a flow between two hosts with a distinct value in each field.
inline Flow FlowOverIpv4() {
  return {.source_mac = {2, 0, 0, 0, 0, 1},
          .destination_mac = {2, 0, 0, 0, 0, 2},
          .source = Ipv4Gid(1),
          .destination = Ipv4Gid(2),
          .traffic_class = 0x68,
          .hop_limit = 9,
          .source_port = 0xc123,
          .identification = 0x4567};
}

inline Flow FlowOverIpv6() {
  Flow flow = FlowOverIpv4();
  flow.source = Ipv6Gid(1);
  flow.destination = Ipv6Gid(2);
  flow.flow_label = 0xabcde;
  flow.identification = 0;
  return flow;
}

inline Flow FlowOverRoceV1() {
  Flow flow = FlowOverIpv6();
  flow.version = mlx5::RoceVersion::kV1;
  flow.source_port = 0;
  return flow;
}

/// Returns a flow within a subnet of InfiniBand.
inline Flow FlowInSubnet() {
  return {.local = LocalRoute{.source = 0x5678, .destination = 0x1234, .service_level = 11}, .grh = false};
}

inline Flow FlowWithGrh() {
  Flow flow = FlowOverRoceV1();
  flow.local = FlowInSubnet().local;
  return flow;
}

/// Parameters of tests that must hold on every network of Ethernet.
inline auto EveryNetwork() { return testing::Values(FlowOverIpv4(), FlowOverIpv6(), FlowOverRoceV1()); }
inline std::string NetworkName(const testing::TestParamInfo<Flow>& info) {
  if (info.param.version == mlx5::RoceVersion::kV1) return "RoceV1";
  return IsIpv4(info.param.destination) ? "Ipv4" : "Ipv6";
}

}  // namespace softhca
