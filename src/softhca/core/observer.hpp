#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/link.hpp"
#include "core/qp.hpp"

namespace softhca {

struct Packet;

enum class Direction : uint8_t { kSent, kReceived };

/// Receives the hardware's events. Called under the engine's lock; references are valid during the call only.
///
/// Hca::observer() is null when there is none, so an unobserved event costs one branch.
class Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// `qp.state` is the new state.
  virtual void OnState(const QueuePair& /*qp*/, mlx5::QpState /*from*/) {}
  virtual void OnLink(const Hca& /*hca*/, uint8_t /*port*/, bool /*up*/) {}

  /// The engine has read the doorbell of a send queue.
  virtual void OnDoorbell(const QueuePair& /*qp*/) {}
  /// An entry was fetched for execution, possibly again.
  virtual void OnFetch(const QueuePair& /*qp*/, uint16_t /*index*/, const Request& /*request*/) {}
  /// An entry is done, whether its completion is signalled or not.
  virtual void OnDone(const QueuePair& /*qp*/, uint16_t /*index*/, mlx5::Syndrome /*syndrome*/) {}
  /// A completion is about to report all entries below `qp.send_index`.
  virtual void OnCompletion(const QueuePair& /*qp*/) {}

  /// A message was delivered without packets to a queue pair of this process.
  virtual void OnMessage(const QueuePair& /*from*/, const QueuePair& /*to*/, const Request& /*request*/) {}
  /// A packet is about to be sent, or has arrived and is about to be handled.
  virtual void OnPacket(const QueuePair& /*qp*/, Direction /*direction*/, const Packet& /*packet*/,
                        uint64_t /*payload_bytes*/) {}
  /// A packet's part of a message was delivered, or the read or atomic that it asks for was accepted: once,
  /// however often the packet comes.
  virtual void OnExecuted(const QueuePair& /*qp*/, const Packet& /*packet*/) {}
  /// The acknowledge timeout of a queue pair has passed, and counts.
  virtual void OnTimeout(const QueuePair& /*qp*/) {}
  /// The acknowledge timeout of a queue pair has passed, and does not count, because the peer's engine could
  /// not run: once until something is acknowledged.
  virtual void OnStalledPeer(const QueuePair& /*qp*/) {}
  /// Received frames were dropped, or frames to be sent were lost.
  ///
  /// @param reason  a few words, the same for every frame dropped for that reason
  virtual void OnDrop(const char* /*reason*/, uint64_t /*frames*/) {}
  /// An event was lost, because the program has left thousands unread.
  virtual void OnLostEvent() {}

  /// A device has refused a program's command.
  virtual void OnRefusal(const Hca& /*hca*/, const char* /*command*/, const char* /*error*/,
                         const char* /*why*/) {}
  /// The engine has nothing to do.
  virtual void OnIdle() {}
  /// The program has ended.
  virtual void OnEnd(std::span<const std::unique_ptr<Hca>> /*devices*/) {}
};

}  // namespace softhca
