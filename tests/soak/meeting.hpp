#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace soak {

inline constexpr uint32_t kQueues = 8;
inline constexpr auto kStall = std::chrono::seconds(60);

/// Data about a queue pair that one end gives to the other.
struct QueueInfo {
  uint32_t qpn;
  ibv_gid gid;
  uint64_t target_address, source_address, counters_address;
  uint32_t target_key, source_key, counters_key;
  std::atomic<uint64_t> verified;  ///< number of the peer's operations checked
  std::atomic<uint64_t> total;     ///< number of own operations; kUnknown while there may be more
};
inline constexpr uint64_t kUnknown = UINT64_MAX;

/// Memory shared by both processes, to communicate without the network under test.
struct Meeting {
  std::array<std::array<QueueInfo, kQueues>, 2> ends;
  std::array<std::atomic<int>, 4> arrived;
  std::atomic<bool> failed;
};

}  // namespace soak
