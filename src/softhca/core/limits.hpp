#pragma once

#include <cstdint>

#include "core/config.hpp"

/// Limits of a ConnectX-7, as reported and as enforced.
namespace softhca::limits {

inline constexpr uint32_t kLogQps = 18;
inline constexpr uint32_t kLogCqs = 24;
inline constexpr uint32_t kLogSrqs = 23;
inline constexpr uint32_t kLogXrcds = 24;
inline constexpr uint32_t kLogMkeys = 24;
inline constexpr uint32_t kLogGroups = 21;  ///< multicast groups
inline constexpr uint32_t kGroupQps = 240;  ///< queue pairs of a multicast group
inline constexpr uint32_t kLogPds = 24;
inline constexpr uint32_t kLogQueueDepth = 15;  ///< send, receive and shared receive queues
inline constexpr uint32_t kLogCqDepth = 22;

inline constexpr uint32_t kSendWqeBytes = 1024;
inline constexpr uint32_t kReceiveWqeBytes = 512;
inline constexpr uint32_t kSegments =
    30;  ///< data segments in a WQE of 512 bytes, after control and remote address
inline constexpr uint32_t kSrqSegments = 31;

inline constexpr uint32_t kLogReads = 4;  ///< reads and atomics in flight in each direction
inline constexpr uint32_t kLogDctConnections = 10;  ///< initiators connected to a DC target
inline constexpr uint32_t kLogBfRegister = 9;
inline constexpr uint32_t kPkeys = 128;
inline constexpr uint32_t kCompletionVectors = 8;
inline constexpr uint32_t kFirstEqn = 8;  ///< EQ number of completion vector 0
inline constexpr uint32_t kLocalAckDelay = 16;
inline constexpr uint32_t kClockKhz = 1'000'000;
inline constexpr uint32_t kAtomicBytes = 4 | 8;
inline constexpr uint32_t kPortGigabits = 400;  ///< NDR, four lanes

/// Memory on the card that programs may allocate, in parts of 64 bytes.
///
/// @source  Linux v6.12, drivers/infiniband/hw/mlx5/dm.c, mlx5_cmd_alloc_memic(), for the parts
inline constexpr uint64_t kCardMemoryBytes = 128 << 10;
inline constexpr uint64_t kCardMemoryPart = 64;

inline constexpr uint16_t kSubnetManagerLid = 1;  ///< no port has it: the first block of addresses is 1
inline constexpr uint16_t kRocePort = 4791;
inline constexpr uint16_t kFirstSourcePort = 0xc000, kLastSourcePort = 0xffff;

constexpr uint32_t GidTableSize(mlx5::PortType link) { return link == mlx5::PortType::kEthernet ? 16 : 8; }

constexpr uint32_t PkeyTableSize(mlx5::PortType link) {
  return link == mlx5::PortType::kEthernet ? 1 : kPkeys;
}

/// Returns an entry of a port's P_Key table: every port is a full member of the default partition, and of no
/// other one. On Ethernet each index is that of the default partition.
constexpr uint16_t Pkey(mlx5::PortType link, uint32_t index) {
  return link == mlx5::PortType::kEthernet || index == 0 ? 0xffff : 0;
}

/// Returns a port's capability mask: a communication manager, and on Ethernet GIDs that are IP addresses.
constexpr uint32_t PortCapabilities(mlx5::PortType link) {
  constexpr uint32_t kCommunicationManager = 1u << 16, kIpBasedGids = 1u << 26;
  return link == mlx5::PortType::kEthernet ? kCommunicationManager | kIpBasedGids : kCommunicationManager;
}

}  // namespace softhca::limits
