#pragma once

#include <cstdint>

#include "core/link.hpp"
#include "core/qp.hpp"
#include "wire/frame.hpp"
#include "wire/packet.hpp"
#include "wire/packet_sink.hpp"

namespace softhca {

/// Sends single packets, each to its own destination.
class DatagramSink {
 public:
  virtual ~DatagramSink() = default;
  /// Sends a packet. Reads the payload before it returns.
  ///
  /// @pre     `packet.dest_qpn` and the DETH are filled in
  /// @return  false if the payload's memory is gone: nothing was sent
  virtual bool SendDatagram(const QueuePair& from, const Destination& to, Packet packet,
                            const Gather& payload) = 0;
};

/// Sends what is posted to an unreliable datagram queue pair, up to a burst, and completes it.
///
/// @return  whether it made progress
bool SendDatagrams(QueuePair& qp, DatagramSink& sink);

/// Receives a datagram: checks its Q_Key, and writes GRH and payload to the next receive. Without a GRH the
/// place for it, the first 40 bytes, stays as it is. A datagram that
/// does not fit, finds no receive or has the wrong Q_Key is dropped silently.
void OnDatagram(QueuePair& qp, const Packet& packet, const Frame& frame);

}  // namespace softhca
