#pragma once

#include "core/channel.hpp"
#include "wire/packet_requester.hpp"
#include "wire/packet_responder.hpp"

namespace softhca {

/// Both ends of a connected queue pair that talks by packets.
struct ConnectionChannel : Channel {
  ConnectionChannel(QueuePair& qp, PacketSink& sink) : requester(qp, sink), responder(qp, sink) {}

  PacketRequester requester;
  PacketResponder responder;
  bool heard = false;  ///< packets have come, or the responder has more to send
};

}  // namespace softhca
