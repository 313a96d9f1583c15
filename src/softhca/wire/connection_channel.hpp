#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "wire/packet_requester.hpp"
#include "wire/packet_responder.hpp"

namespace softhca {

struct ConnectionChannel;

/// Channels with work that no doorbell announces. All other channels cost no time, however many there are.
using BusyChannels = std::vector<ConnectionChannel*>;

/// Requester and responder of a connected queue pair that uses packets.
struct ConnectionChannel : Channel {
  ConnectionChannel(QueuePair& queue_pair, PacketSink& sink, std::shared_ptr<BusyChannels> busy)
      : qp(queue_pair), requester(queue_pair, sink), responder(queue_pair, sink), busy_(std::move(busy)) {}
  ~ConnectionChannel() override {
    if (listed_) std::erase(*busy_, this);
  }

  /// Adds the channel to the busy ones if it is. Call it after packets arrive and after the requester has
  /// run, which may have started its timer.
  void EnlistIfBusy() {
    if (IsBusy() && !std::exchange(listed_, true)) busy_->push_back(this);
  }
  static void DropIdle(BusyChannels& busy) {
    std::erase_if(busy, [](ConnectionChannel* channel) { return !(channel->listed_ = channel->IsBusy()); });
  }

  QueuePair& qp;
  PacketRequester requester;
  PacketResponder responder;
  bool packets_pending = false;  ///< packets arrived, or the responder has more to send

 private:
  bool IsBusy() const { return packets_pending || requester.NextNs() != UINT64_MAX; }

  std::shared_ptr<BusyChannels> busy_;
  bool listed_ = false;  // in `busy_`
};

}  // namespace softhca
