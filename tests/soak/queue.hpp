#pragma once

#include <cstdint>
#include <string>

#include "soak/meeting.hpp"
#include "soak/operation.hpp"
#include "verbs/peer.hpp"

namespace soak {

/// One end of a queue pair: posts its own stream of operations, and checks its peer's.
///
/// @errors  std::runtime_error, from every call: names the operation and what is wrong
class Queue {
 public:
  Queue(ibv_context* context, const Stream& own, const Stream& peer);

  /// Publishes the addresses for the peer.
  void Introduce(QueueInfo& own);
  /// @param timeout  acknowledge timeout, as a code: 4.096 us * 2^timeout
  void Connect(QueueInfo& own, QueueInfo& peer, uint8_t timeout);

  /// Posts what the peer can accept, and handles completions. Posts nothing after the end of a round if
  /// `stop`.
  ///
  /// @return  whether it made progress
  bool Run(bool stop);
  /// Returns whether both streams have ended.
  bool Done() const;
  /// Checks the final state: counters, and no leftover completions.
  void CheckEnd();

  uint64_t completed() const { return completed_; }
  std::string Where() const;

 private:
  bool Post(bool stop);
  void PostOperation(const Operation& operation);
  bool TakeCompletion();
  bool TakeReceive();
  void PostReceive(uint32_t slot);
  void CheckFetched(const Operation& operation);
  void CheckAnnounced(const ibv_wc& wc, const Operation& operation);
  void Require(bool good, const Operation& operation, const std::string& why) const;

  Stream own_stream_, peer_stream_;
  verbs::Peer peer_;  ///< verbs objects
  verbs::Buffer outbox_, inbox_, landing_, target_, source_, counters_;
  QueueInfo* own_ = nullptr;
  QueueInfo* other_ = nullptr;
  uint64_t posted_ = 0, completed_ = 0, verified_ = 0;
  uint64_t added_ = 0, swapped_ = 0;         ///< posted atomics
  uint64_t adds_seen_ = 0, swaps_seen_ = 0;  ///< completed atomics
};

}  // namespace soak
