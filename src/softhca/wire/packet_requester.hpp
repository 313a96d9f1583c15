#pragma once

#include <cstdint>

#include "core/qp.hpp"
#include "wire/packet.hpp"
#include "wire/packet_sink.hpp"

namespace softhca {

/// Sends the messages of a connected queue pair as packets, reliable or not, and completes them.
///
/// Reliable: goes back to the oldest packet that was not acknowledged after a NAK or a timeout, waits for
/// receivers that are not ready, and gives up after as many retries as the queue pair was given.
///
/// Entries complete in their order; `qp.send_index` is the oldest that has not. A queue pair that is not in
/// RTS is not its business: whoever runs it flushes it.
class PacketRequester {
 public:
  PacketRequester(QueuePair& qp, PacketSink& sink);
  ~PacketRequester();

  /// Fetches and sends what is posted, as far as the window allows, up to a burst; lets timers run.
  ///
  /// @return  whether there was any progress
  bool Run(uint64_t now_ns);

  /// Takes an acknowledgement, a read response or an atomic's answer.
  void OnAnswer(const Packet& packet, uint64_t now_ns);

  /// When Run() has something to do of itself; UINT64_MAX: never.
  uint64_t NextNs() const;
};

}  // namespace softhca
