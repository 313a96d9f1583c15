#pragma once

#include <array>
#include <cstdint>

#include "core/wqe_reader.hpp"

namespace softhca {

/// What bounds the packets of a requester that are under way. A receiver's socket must hold all that comes
/// while its engine does not run: 128 KiB of payload fit into the buffer that Linux gives a socket unasked,
/// and keep a loopback busy for ten times as long as an acknowledgement takes.
inline constexpr uint32_t kWindowBytes = 128 << 10;
inline constexpr uint32_t kWindowPackets = 128;

/// A message under way.
///
/// A requester counts packets from 0 on; such a position never wraps. A packet's sequence number is its
/// position plus a constant, modulo 2^24.
struct Message {
  SendEntry entry;
  uint64_t bytes = 0;
  uint64_t first = 0;    ///< position of its first packet
  uint32_t packets = 1;  ///< positions that it takes: a read as many as its response has packets
  bool fetches = false;  ///< ends only by its answer, a read or an atomic

  uint64_t end() const { return first + packets; }
};

/// The messages under way, oldest first. Each takes a position of the window, so there are never more.
class MessageRing {
 public:
  bool empty() const { return head_ == tail_; }
  uint32_t begin_index() const { return head_; }
  /// By index, which runs free.
  const Message& operator[](uint32_t index) const { return messages_[index % kWindowPackets]; }
  const Message& front() const { return (*this)[head_]; }
  void Push(const Message& message) { messages_[tail_++ % kWindowPackets] = message; }
  void Pop() { ++head_; }

 private:
  std::array<Message, kWindowPackets> messages_;
  uint32_t head_ = 0, tail_ = 0;
};

}  // namespace softhca
