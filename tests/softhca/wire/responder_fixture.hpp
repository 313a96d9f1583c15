#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "core/message_requester.hpp"
#include "core/queues.hpp"
#include "wire/message_link.hpp"
#include "wire/packet_recorder.hpp"
#include "wire/packet_responder.hpp"

namespace softhca {

inline constexpr uint32_t kMtu = 1024;

/// Describes an answer: "ACK 3 msn 2", "NAK 0x60 at 1 msn 0", "RNR 12 at 1 msn 0", "READ_RESP_MIDDLE 4".
std::string Describe(const Packet& packet);

/// A responder whose peer is the test, which makes the requests and reads the answers.
class ResponderFixture : public testing::Test {
 protected:
  explicit ResponderFixture(const QpOptions& options = {}, const QpChange& change = {},
                            const DeviceConfig& device = TestDevice())
      : hca(device), user(hca, pd, options), peer(hca, pd, options) {
    user.Connect(peer, change);
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(1 + i % 251);
    responder.emplace(user.qp(), sink);
  }

  /// Returns a packet of a message whose first packet has PSN 0. Its payload is its part of the message.
  Packet Make(PacketOp op, uint32_t psn, size_t bytes = 0) {
    Packet packet{.op = op, .psn = psn};
    if (user.qp().config.service == mlx5::ServiceType::kUc) packet.service = PacketService::kUc;
    packet.payload = std::span(payload).subspan(psn % 16 * kMtu, bytes);
    return packet;
  }
  /// Returns the same, for a write or read of `message_bytes` at `offset` of the memory.
  Packet Make(PacketOp op, uint32_t psn, size_t bytes, uint32_t message_bytes, size_t offset = 0) {
    Packet packet = Make(op, psn, bytes);
    packet.memory = {memory.Address(offset), memory.key, message_bytes};
    return packet;
  }
  Packet Read(uint32_t psn, uint32_t bytes, size_t offset = 0) {
    return Make(PacketOp::kReadRequest, psn, 0, bytes, offset);
  }
  Packet FetchAdd(uint32_t psn, uint64_t add, size_t offset = 0) {
    Packet packet = Make(PacketOp::kFetchAdd, psn);
    packet.atomic.address = memory.Address(offset);
    packet.atomic.rkey = memory.key;
    packet.atomic.swap_add = add;
    return packet;
  }

  void Take(Packet packet, bool ack_request = false) {
    packet.ack_request = ack_request;
    responder->OnRequest(packet);
  }
  void TakeAndRequestAck(const Packet& packet) { Take(packet, true); }

  /// Returns all answers that are due now.
  std::vector<std::string> Answers() {
    while (responder->Flush()) {
    }
    std::vector<std::string> answers;
    for (; !sink.sent.empty(); sent.push_back(sink.Take())) {
      answers.push_back(Describe(sink.sent.front().packet));
    }
    return answers;
  }
  /// Returns the payload of all answers so far.
  std::vector<uint8_t> Answered() const {
    std::vector<uint8_t> bytes;
    for (const SentPacket& packet : sent)
      bytes.insert(bytes.end(), packet.payload.begin(), packet.payload.end());
    return bytes;
  }
  std::vector<uint8_t> Memory(size_t offset, size_t bytes) const {
    return {memory.memory.begin() + static_cast<ptrdiff_t>(offset),
            memory.memory.begin() + static_cast<ptrdiff_t>(offset + bytes)};
  }
  std::vector<uint8_t> Payload(size_t offset, size_t bytes) const {
    return {payload.begin() + static_cast<ptrdiff_t>(offset),
            payload.begin() + static_cast<ptrdiff_t>(offset + bytes)};
  }

  Hca hca;
  uint32_t pd = hca.AllocPd();
  QpUser user, peer;
  Region memory{hca, pd, size_t{128} * kMtu};
  std::vector<uint8_t> payload = std::vector<uint8_t>(16 * kMtu);
  PacketRecorder sink;
  std::vector<SentPacket> sent;
  std::optional<PacketResponder> responder;
};

inline mlx5::DataSegment Segment(const Region& region, size_t offset, uint32_t bytes) {
  return {mlx5::ToBe32(bytes), mlx5::ToBe32(region.key), mlx5::ToBe64(region.Address(offset))};
}

}  // namespace softhca
