#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::transport {

/// The configuration of a transport, which checks it. The defaults work on any fabric.
///
/// Both sides should choose alike: a queue pair without a counterpart on the other side stays idle. Both
/// depths together, as powers of two, times all queue pairs are at most 2^19, the number of notifications
/// that may overtake one.
struct WARPVERBS_EXPORT TransportConfig {
  /// Largest number of NICs to spread over, nearest first; 1..8, because an access key has room for 8 keys.
  uint32_t max_nics = 1;
  uint32_t queue_pairs = 2;      ///< queue pairs on each NIC; on all NICs together 1..32
  uint32_t depth = 128;          ///< pieces that each send queue holds; further pieces wait for room
  uint32_t receive_depth = 256;  ///< notifications that each queue pair receives between two polls
  static constexpr uint64_t kMinPieceBytes = 256;
  /// Largest piece of a transfer, at least kMinPieceBytes: each takes an entry of a queue. The device may
  /// allow less.
  uint64_t piece_bytes = uint64_t{1} << 20;

  /// Time from Connect() until the peer must have connected; after it the transport is broken.
  ///
  /// Both loops take part in connecting, so a blocked loop counts as an absent peer. Once connected, a
  /// blocked loop only delays: the peer's NIC sends again as long as `retry` allows (by default forever).
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(30);

  /// Time that the loop keeps polling after a completion, before it sleeps; at least 0. Costs processor time,
  /// saves the microseconds of a wake-up.
  std::chrono::nanoseconds spin = std::chrono::microseconds(20);

  host::PathConfig path{};
  /// Retries of both sides, see Endpoint. Also the time between two tries to reach a peer that has not
  /// connected: 0.27 s by default.
  host::RetryConfig retry{.ack_timeout = 16};
};

/// Options of one RdmaTransport::Write().
struct WriteOptions {
  bool notify = false;  ///< completes one WaitForWrite() of the peer after all bytes have arrived
  /// Empty: no timeout. After a timeout the NIC may still read the memory: do not free it until the transport
  /// is destroyed or broken.
  std::optional<std::chrono::nanoseconds> timeout{};
};

/// Options of one RdmaTransport::Read().
struct ReadOptions {
  /// Empty: no timeout. After a timeout the NIC may still write to the memory at any time: do not free it or
  /// use it for anything else until the transport is destroyed or broken.
  std::optional<std::chrono::nanoseconds> timeout{};
};

/// Options of one RdmaTransport::WaitForWrite().
struct WaitOptions {
  std::optional<std::chrono::nanoseconds> timeout{};
};

}  // namespace warpverbs::inline v0_2::transport
