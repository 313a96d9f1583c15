#pragma once

#include <algorithm>
#include <cstdint>

#include "core/config.hpp"
#include "core/link.hpp"

namespace softhca {

inline constexpr uint32_t kPsnMask = 0xffffff;

/// Returns `psn` - `from` modulo 2^24, as a signed number: negative if `psn` comes before `from`.
constexpr int32_t PsnDelta(uint32_t psn, uint32_t from) {
  return static_cast<int32_t>((psn - from) << 8) >> 8;
}

constexpr uint32_t AddPsn(uint32_t psn, uint32_t packets) { return (psn + packets) & kPsnMask; }

/// Returns the number of packets that a payload takes, at least one.
constexpr uint32_t PacketCount(uint64_t payload_bytes, mlx5::Mtu mtu) {
  const uint64_t bytes = MtuBytes(mtu);
  return static_cast<uint32_t>(std::max<uint64_t>(1, (payload_bytes + bytes - 1) / bytes));
}

/// Returns the number of PSNs that a request takes: one for each packet of payload, in either direction.
inline uint32_t PsnCount(const Request& request, mlx5::Mtu mtu) { return PacketCount(request.bytes, mtu); }

}  // namespace softhca
