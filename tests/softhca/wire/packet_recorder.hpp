#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "wire/packet_sink.hpp"

namespace softhca {

/// A sent packet with a copy of its payload.
struct SentPacket {
  SentPacket(Packet sent, std::vector<uint8_t> bytes) : packet(std::move(sent)), payload(std::move(bytes)) {
    packet.payload = payload;
  }

  Packet packet;
  std::vector<uint8_t> payload;
};

/// Records sent packets.
class PacketRecorder : public PacketSink {
 public:
  bool Send(const QueuePair& /*from*/, Packet packet, const Gather& payload) override {
    std::vector<uint8_t> bytes;
    for (const Bytes& piece : payload.pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
    const auto first = bytes.begin() + static_cast<ptrdiff_t>(payload.offset);
    sent.emplace_back(packet, std::vector<uint8_t>(first, first + payload.bytes));
    return true;
  }
  std::optional<uint64_t> PeerStalledAt(const QueuePair& /*from*/) override { return peer_stalled_at; }

  /// Removes and returns the oldest packet.
  ///
  /// @pre  a packet was sent
  SentPacket Take() {
    SentPacket packet = std::move(sent.front());
    sent.pop_front();
    packet.packet.payload = packet.payload;
    return packet;
  }

  std::deque<SentPacket> sent;
  std::optional<uint64_t> peer_stalled_at;
};

}  // namespace softhca
