#pragma once

#include <cstdint>

#include "core/link.hpp"
#include "core/qp.hpp"
#include "core/send_queue.hpp"
#include "core/wqe_reader.hpp"

namespace softhca {

/// Executes send queues whose peer is in this process, message by message, and flushes the send and receive
/// queues of queue pairs in error. See MessageLink.
class MessageRequester {
 public:
  explicit MessageRequester(Link& link) : link_(link) {}

  /// Executes what the doorbell announced, up to a burst, so that queue pairs take turns.
  ///
  /// @return  whether any work queue entry completed
  bool Run(QueuePair& qp, uint64_t now_ns);

  /// Completes the receives of a queue pair in error as flushed. Receives have no doorbell, so this reads the
  /// doorbell record.
  ///
  /// @return  whether there was a receive to flush
  bool FlushReceives(QueuePair& qp, uint64_t now_ns);

 private:
  bool Step(QueuePair& qp, uint32_t available, uint64_t now_ns);
  bool OnResponse(QueuePair& qp, const Response& response, uint64_t now_ns);
  void Finish(QueuePair& qp, const WqeResult& result);

  Link& link_;
  SendWqe wqe_;
};

}  // namespace softhca
