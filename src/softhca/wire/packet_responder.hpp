#pragma once

#include <cstdint>

#include "core/qp.hpp"
#include "wire/packet.hpp"
#include "wire/packet_sink.hpp"

namespace softhca {

/// Executes the requests that come to a connected queue pair as packets, reliable or not, and answers them.
class PacketResponder {
 public:
  PacketResponder(QueuePair& qp, PacketSink& sink);
  ~PacketResponder();

  /// @pre  the queue pair listens, and the packet came from its peer
  void OnRequest(const Packet& packet, uint64_t now_ns);

  /// Sends the acknowledgement that was put off so that one serves several packets; called when nothing more
  /// has arrived.
  void Flush();
};

}  // namespace softhca
