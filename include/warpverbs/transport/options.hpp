#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "warpverbs/host/path.hpp"
#include "warpverbs/host/queue_pair.hpp"

namespace warpverbs::transport {

/// All that may be chosen about a transport. The defaults work on any fabric. Both sides should choose alike:
/// a queue pair that the other side has no counterpart for stays idle. Both depths together, as powers of
/// two, times all queue pairs are at most 2^19: so many notifications may overtake one.
struct TransportOptions {
  /// Spread over so many, where the device has them near; 1..8, as an access key has room for 8 keys.
  uint32_t max_nics = 1;
  uint32_t queue_pairs = 2;      ///< of each NIC; NICs times queue pairs: 1..32
  uint32_t depth = 128;          ///< of each send queue, in pieces; what is more waits its turn
  uint32_t receive_depth = 256;  ///< notifications that each queue pair takes before they are looked at
  uint64_t piece_bytes = uint64_t{1} << 20;  ///< at most, of a piece of a transfer; the device may allow less

  /// How long after Connect() the peer may take to connect. Then the transport is broken. Both loops have a
  /// part in it, so a loop that is blocked counts as a peer that is not there. Once connected it delays
  /// alone: what it does not take in time the peer's NIC sends again, for as long as `retry` says (for ever).
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(30);

  /// How long the loop keeps looking after something has happened, before it sleeps. Costs processor time,
  /// saves the microseconds of a wake-up.
  std::chrono::nanoseconds spin = std::chrono::microseconds(20);

  host::PathConfig path{};
  /// Of both sides, see Endpoint. A peer that connects later is tried again after each timeout: 0.27 s here.
  host::RetryConfig retry{.ack_timeout = 16};
};

struct WriteOptions {
  bool notify = false;  ///< completes one WaitForWrite() of the peer, once all bytes are there
  /// Empty: none. After a timeout the NIC may still read the memory: do not free it until the transport is
  /// destroyed or broken.
  std::optional<std::chrono::nanoseconds> timeout{};
};

struct ReadOptions {
  /// Empty: none. After a timeout the NIC may still write into the memory, at any time: do not free it, nor
  /// use it for anything else, until the transport is destroyed or broken.
  std::optional<std::chrono::nanoseconds> timeout{};
};

struct WaitOptions {
  std::optional<std::chrono::nanoseconds> timeout{};
};

}  // namespace warpverbs::transport
