#pragma once

#include <array>
#include <cstdint>

#include "core/hca.hpp"
#include "wire/frame.hpp"

namespace softhca {

using Mad = std::array<uint8_t, 256>;

/// Answers on queue pair 1 of every port, for communication management. Called under the engine's lock.
class ManagementAgent {
 public:
  virtual ~ManagementAgent() = default;
  virtual void OnMad(Hca& hca, uint8_t port, const Flow& flow, const Mad& mad) = 0;
  /// Runs the timers that are due.
  virtual void OnTime(uint64_t now_ns) = 0;
  /// Returns when OnTime() is due; UINT64_MAX: never.
  virtual uint64_t NextNs() const = 0;
};

/// Sends the agent's messages.
class ManagementSink {
 public:
  virtual ~ManagementSink() = default;
  /// Sends to queue pair 1 of `destination`.
  ///
  /// @param gid_index  index of the port's GID to send from
  virtual void SendMad(Hca& hca, uint8_t port, uint8_t gid_index, const Gid& destination, const Mad& mad) = 0;
};

}  // namespace softhca
