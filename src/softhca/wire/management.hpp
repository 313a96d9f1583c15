#pragma once

#include <array>
#include <cstdint>

#include "core/hca.hpp"
#include "wire/frame.hpp"

namespace softhca {

using Mad = std::array<uint8_t, 256>;

/// What answers on queue pair 1 of every port: communication management. Called under the engine's lock.
class ManagementAgent {
 public:
  virtual ~ManagementAgent() = default;
  virtual void OnMad(Hca& hca, uint8_t port, const Flow& flow, const Mad& mad) = 0;
  /// Lets timers run.
  virtual void OnTime(uint64_t now_ns) = 0;
  /// When OnTime() has something to do; UINT64_MAX: never.
  virtual uint64_t NextNs() const = 0;
};

/// What sends for it.
class ManagementSink {
 public:
  virtual ~ManagementSink() = default;
  /// Sends to queue pair 1 of `destination`, from a GID of the port (its index).
  virtual void SendMad(Hca& hca, uint8_t port, uint8_t gid_index, const Gid& destination, const Mad& mad) = 0;
};

}  // namespace softhca
