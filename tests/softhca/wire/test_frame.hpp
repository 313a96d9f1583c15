#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "wire/address_block.hpp"
#include "wire/frame.hpp"
#include "wire/medium.hpp"
#include "wire/packet.hpp"

/// Frames to test media with.
namespace softhca {

using Bytestream = std::vector<uint8_t>;

/// Returns an address of a block that launchers use only if most are taken.
inline Gid TestGid(uint32_t port) { return address_block::Ipv4GidOf(address_block::kLast, 15, port); }
inline Mac TestMac(uint32_t port) { return address_block::MacOf(address_block::kLast, 15, port); }

inline uint16_t TestLid(uint32_t port) { return address_block::LidOf(address_block::kLast, 15, port); }

/// Returns the flow from port 1 to port 2.
inline Flow TestFlow() {
  return {.source_mac = TestMac(1),
          .destination_mac = TestMac(2),
          .source = TestGid(1),
          .destination = TestGid(2),
          .traffic_class = 0x68,
          .hop_limit = 33,
          .source_port = 0xc123};
}

/// Returns a sealed SEND_ONLY.
inline Bytestream TestFrame(const Flow& flow, std::string_view text = "text") {
  const Packet packet{.dest_qpn = 0x123, .psn = 7};
  std::array<uint8_t, kMaxPacketHeaderBytes> headers;
  const size_t header_bytes = EncodeHeaders(packet, text.size(), headers);
  const size_t transport_bytes = header_bytes + text.size() + PadBytes(text.size()) + kIcrcBytes;
  Bytestream frame(FrameHeaderBytes(flow) + transport_bytes + FrameTrailerBytes(flow));
  const size_t start = WriteFrameHeaders(flow, transport_bytes, frame);
  std::copy_n(headers.begin(), header_bytes, frame.begin() + start);
  std::copy(text.begin(), text.end(), frame.begin() + start + header_bytes);
  SealFrame(frame, LinkOf(flow));
  return frame;
}

/// Receives frames until there are `count`, or until the deadline.
inline std::vector<Bytestream> Receive(Medium& medium, size_t count,
                                       const std::function<void()>& meanwhile = {}) {
  std::vector<Bytestream> frames;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (frames.size() < count && std::chrono::steady_clock::now() < deadline) {
    medium.Receive(64,
                   [&](std::span<const uint8_t> frame) { frames.emplace_back(frame.begin(), frame.end()); });
    if (meanwhile) meanwhile();
    std::this_thread::yield();
  }
  return frames;
}

}  // namespace softhca
