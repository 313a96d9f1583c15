#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "core/qp.hpp"
#include "wire/connection_channel.hpp"
#include "wire/frame.hpp"
#include "wire/packet.hpp"
#include "wire/packet_sink.hpp"

namespace softhca {

/// A DC target's state: a responder for each initiator that has connected to it.
///
/// A responder is a queue pair with the target's number, rights and receives, and is connected to one
/// initiator. What goes wrong on a connection ends the connection, not the target. The next connection of the
/// same initiator replaces the last one; nothing announces the end of a connection.
class DcTargetChannel : public Channel {
 public:
  DcTargetChannel(QueuePair& target, PacketSink& sink, std::shared_ptr<BusyChannels> busy)
      : target_(target), sink_(sink), busy_(std::move(busy)) {}

  /// Executes a request of an initiator. One with a wrong access key is refused with a NAK (remote access).
  ///
  /// @param flow  source and destination of its frame
  /// @return  why the request was dropped; null: it was handled
  const char* OnRequest(const Packet& packet, const Flow& flow);

 private:
  using Initiator = std::tuple<Gid, uint16_t, uint32_t>;  ///< GID, LID and queue pair number

  struct Responder {
    uint64_t connection;
    uint64_t last_use;
    std::unique_ptr<QueuePair> qp;
  };

  std::unique_ptr<QueuePair> MakeResponder(const Packet& packet, const Flow& flow);
  Responder& Open(const Initiator& initiator, const Packet& packet, const Flow& flow);
  void Refuse(const Packet& packet, const Flow& flow);
  void MakeRoom();

  QueuePair& target_;
  PacketSink& sink_;
  std::shared_ptr<BusyChannels> busy_;
  std::map<Initiator, Responder> responders_;
  uint64_t uses_ = 0;
};

}  // namespace softhca
