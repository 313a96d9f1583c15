#pragma once

#include <array>
#include <cstdint>

#include "core/wqe_reader.hpp"

namespace softhca {

/// Limits on a requester's packets in flight. A receiver's socket must hold everything that arrives while its
/// engine does not run: 128 KiB of payload fit into Linux's default socket buffer, and keep a loopback
/// interface busy for ten times as long as an acknowledgement takes.
inline constexpr uint32_t kWindowBytes = 128 << 10;
inline constexpr uint32_t kWindowPackets = 128;

/// A message in flight.
///
/// A requester numbers its packets from 0; such a position never wraps. A packet's PSN is its position plus a
/// constant, modulo 2^24.
struct Message {
  SendEntry entry;
  uint64_t bytes = 0;
  uint64_t first = 0;    ///< position of the first packet
  uint32_t packets = 1;  ///< positions that it takes; for a read, packets of its response
  bool fetches = false;  ///< read or atomic: only its response completes it

  uint64_t end() const { return first + packets; }
};

/// Messages in flight, oldest first. Each takes a position of the window, so the ring never overflows.
class MessageRing {
 public:
  bool empty() const { return head_ == tail_; }
  uint32_t begin_index() const { return head_; }
  /// Returns a message by its free-running index.
  const Message& operator[](uint32_t index) const { return messages_[index % kWindowPackets]; }
  const Message& front() const { return (*this)[head_]; }
  void Push(const Message& message) { messages_[tail_++ % kWindowPackets] = message; }
  void Pop() { ++head_; }

 private:
  std::array<Message, kWindowPackets> messages_;
  uint32_t head_ = 0, tail_ = 0;
};

}  // namespace softhca
