#pragma once

#include <cstdint>

#include "core/link.hpp"
#include "core/qp.hpp"
#include "core/remote_memory.hpp"
#include "wire/packet.hpp"

namespace softhca {

/// Longest message that InfiniBand allows.
inline constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 31;

/// A send or write that arrives packet by packet. Each packet is checked, and its payload is written directly
/// to its destination; the last packet completes the receive.
class InboundMessage {
 public:
  explicit InboundMessage(QueuePair& qp) : qp_(qp) {}

  /// Handles the next packet.
  ///
  /// @pre     the packet belongs to a send or a write
  /// @return  unless it is an acknowledgement, nothing has changed: the packet may come again
  Response Take(const Packet& packet);

  /// Drops the message that is arriving. Its receive stays open for the next message.
  void Drop() { under_way_ = false; }

  bool under_way() const { return under_way_; }

 private:
  bool IsInSequence(PacketOp op) const;
  bool HasRightLength(const Packet& packet) const;
  Response TakeSend(const Packet& packet);
  Response TakeWrite(const Packet& packet);

  QueuePair& qp_;
  bool under_way_ = false;
  bool is_send_ = false;
  uint64_t received_ = 0;  ///< bytes
  RemoteRange rest_;       ///< writes: range still to be written
};

/// Returns whether a packet is part of a send, not of a write, read or atomic.
bool IsSend(PacketOp op);
bool IsWrite(PacketOp op);

}  // namespace softhca
