#pragma once

#include <cstdint>

#include "core/qp.hpp"

namespace softhca {

/// What connects the devices to their peers, and executes what is posted for them. Called by the engine,
/// under its lock but for Wait().
class Network {
 public:
  virtual ~Network() = default;

  /// Takes note of a queue pair that was moved to another state by its program.
  ///
  /// @errors  CommandError: what it needs cannot be had, such as a UDP port; a sentence
  virtual void OnTransition(QueuePair& qp) = 0;

  /// Goes on with what was posted to a queue pair, up to a burst, so that queue pairs take turns. Flushes
  /// those in error.
  ///
  /// @return  whether there was any progress
  virtual bool Run(QueuePair& qp, uint64_t now_ns) = 0;

  /// Takes in what has arrived, lets timers run that are due, and sends what Run() has left to be sent.
  ///
  /// @return  whether there was anything
  virtual bool Poll(uint64_t now_ns) = 0;

  /// When Poll() has something to do of itself; UINT64_MAX: never.
  virtual uint64_t NextNs() const = 0;

  /// Whether Poll() has not yet been able to send all that is to be sent.
  virtual bool HasUnsent() const { return false; }

  /// Whether frames may arrive from outside: without, there is nothing to wait for.
  virtual bool Listens() const = 0;

  /// Sleeps until a frame arrives, at most `limit_ns`. The one call without the engine's lock.
  virtual void Wait(uint64_t limit_ns) = 0;
};

}  // namespace softhca
