#pragma once

#include <cstdint>

#include "core/qp.hpp"

namespace softhca {

/// Connects the devices to their peers, and executes what is posted to their queue pairs. Called by the
/// engine; all calls but Wait() are under the engine's lock.
class Network {
 public:
  virtual ~Network() = default;

  /// Handles a state transition that a program has requested for its queue pair.
  ///
  /// @errors  CommandError: a resource, such as a UDP port, is not available
  virtual void OnTransition(QueuePair& qp) = 0;

  /// Sends all datagrams that are posted to a queue pair. Called before a command that a card would execute
  /// after them.
  virtual void FinishDatagrams(QueuePair& /*qp*/) {}

  /// Handles a change of the multicast groups that queue pairs are attached to.
  ///
  /// @errors  CommandError: a resource, such as a socket, is not available for a new group
  virtual void OnGroups() {}

  /// Executes what is posted to a queue pair, up to a burst, so that queue pairs take turns. Flushes queue
  /// pairs in error.
  ///
  /// @return  whether it made progress
  virtual bool Run(QueuePair& qp, uint64_t now_ns) = 0;

  /// Handles what has arrived, runs the timers that are due, and sends what Run() has queued.
  ///
  /// @return  whether there was anything to do
  virtual bool Poll(uint64_t now_ns) = 0;

  /// Returns when Poll() is due even if nothing arrives; UINT64_MAX: never.
  virtual uint64_t NextNs() const = 0;

  /// Takes time in which the engine could not run off all timers that a peer's answer stops.
  virtual void OnStall(uint64_t /*ns*/) {}

  /// Returns whether frames still wait to be sent.
  virtual bool HasUnsent() const { return false; }

  /// Returns whether frames may arrive from outside. If not, there is nothing to wait for.
  virtual bool Listens() const = 0;

  /// Sleeps until a frame arrives, at most `limit_ns`. Called without the engine's lock.
  virtual void Wait(uint64_t limit_ns) = 0;
};

}  // namespace softhca
