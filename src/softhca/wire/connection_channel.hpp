#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/channel.hpp"
#include "wire/packet_requester.hpp"
#include "wire/packet_responder.hpp"

namespace softhca {

struct ConnectionChannel;

/// The channels that have something to do of themselves, with no doorbell: the others cost no time, however
/// many there are.
using BusyChannels = std::vector<ConnectionChannel*>;

/// Both ends of a connected queue pair that talks by packets.
struct ConnectionChannel : Channel {
  ConnectionChannel(QueuePair& queue_pair, PacketSink& sink, std::shared_ptr<BusyChannels> busy)
      : qp(queue_pair), requester(queue_pair, sink), responder(queue_pair, sink), busy_(std::move(busy)) {}
  ~ConnectionChannel() override {
    if (listed_) std::erase(*busy_, this);
  }

  /// To be called when packets have come, and after the requester has run: its timer may have started.
  void EnlistIfBusy() {
    if (IsBusy() && !std::exchange(listed_, true)) busy_->push_back(this);
  }
  static void DropIdle(BusyChannels& busy) {
    std::erase_if(busy, [](ConnectionChannel* channel) { return !(channel->listed_ = channel->IsBusy()); });
  }

  QueuePair& qp;
  PacketRequester requester;
  PacketResponder responder;
  bool heard = false;  ///< packets have come, or the responder has more to send

 private:
  bool IsBusy() const { return heard || requester.NextNs() != UINT64_MAX; }

  std::shared_ptr<BusyChannels> busy_;
  bool listed_ = false;  // there
};

}  // namespace softhca
