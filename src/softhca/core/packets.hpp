#pragma once

#include <algorithm>
#include <cstdint>

#include "core/hca.hpp"
#include "core/limits.hpp"
#include "core/link.hpp"

namespace softhca {

inline constexpr uint32_t kPsnMask = 0xffffff;

/// Returns `psn` - `from` modulo 2^24, as a signed number: negative if `psn` comes before `from`.
constexpr int32_t PsnDelta(uint32_t psn, uint32_t from) {
  return static_cast<int32_t>((psn - from) << 8) >> 8;
}

constexpr uint32_t AddPsn(uint32_t psn, uint32_t packets) { return (psn + packets) & kPsnMask; }

/// Returns the P_Key of a queue pair's packets.
inline uint16_t PkeyOf(const QueuePair& qp) {
  return limits::Pkey(qp.hca->config().link, qp.attributes.pkey_index);
}

/// Returns whether packets with one P_Key reach a queue pair with the other: their partition is the same and
/// valid, and one of the two is a full member.
///
/// @source  IBTA 1.4, 10.9.3
constexpr bool SharePartition(uint16_t a, uint16_t b) {
  constexpr uint16_t kFullMember = 0x8000;
  return ((a ^ b) & ~kFullMember) == 0 && (a & ~kFullMember) != 0 && ((a | b) & kFullMember) != 0;
}

/// Returns the number of packets that a payload takes, at least one.
constexpr uint32_t PacketCount(uint64_t payload_bytes, mlx5::Mtu mtu) {
  const uint64_t bytes = MtuBytes(mtu);
  return static_cast<uint32_t>(std::max<uint64_t>(1, (payload_bytes + bytes - 1) / bytes));
}

/// Returns the number of PSNs that a request takes: one for each packet of payload, in either direction.
inline uint32_t PsnCount(const Request& request, mlx5::Mtu mtu) { return PacketCount(request.bytes, mtu); }

}  // namespace softhca
