#pragma once

#include <cstdint>

#include "core/link.hpp"
#include "core/qp.hpp"
#include "wire/frame.hpp"
#include "wire/packet.hpp"
#include "wire/packet_sink.hpp"

namespace softhca {

/// Sends single packets wherever they are addressed to.
class DatagramSink {
 public:
  virtual ~DatagramSink() = default;
  /// Reads the payload before it returns. `packet.dest_qpn` and the DETH are filled in.
  ///
  /// @return  false if the payload's memory is gone: nothing was sent
  virtual bool SendDatagram(const QueuePair& from, const Destination& to, Packet packet,
                            const Gather& payload) = 0;
};

/// Sends what is posted to an unreliable datagram queue pair, up to a burst, and completes it.
///
/// @return  whether there was any progress
bool SendDatagrams(QueuePair& qp, DatagramSink& sink);

/// Takes a datagram: checks its Q_Key, and puts GRH and payload into the next receive. What does not fit, has
/// no receive or the wrong key is dropped in silence.
void OnDatagram(QueuePair& qp, const Packet& packet, const Frame& frame);

}  // namespace softhca
