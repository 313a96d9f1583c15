#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

/// Operations between the two ends of a queue pair. Both ends derive them from the same seed, so each knows
/// what the other must have done.
namespace soak {

inline constexpr uint32_t kSlots = 64;
inline constexpr uint32_t kSlotBytes = 16384;
inline constexpr uint32_t kRingBytes = kSlots * kSlotBytes;
/// The last of this many operations always announces itself, so that those before it get checked.
inline constexpr uint64_t kRound = 8;

/// Identifies the sequence of operations that one end posts to one queue pair.
struct Stream {
  uint64_t seed;
  uint32_t end;
  uint32_t queue;
};

struct Operation {
  uint64_t index;
  ibv_wr_opcode opcode;
  uint32_t bytes;
  uint32_t offset;  ///< offset of a read in the peer's source
  uint64_t key;     ///< key of the bytes that it carries

  /// Returns whether it consumes a receive of the peer.
  bool Announces() const;
  /// Returns whether it writes to its slot at the peer.
  bool Writes() const { return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM; }
  bool IsAtomic() const {
    return opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  }
  uint32_t Slot() const { return static_cast<uint32_t>(index % kSlots) * kSlotBytes; }
  std::string ToString() const;
};

Operation OperationOf(const Stream& stream, uint64_t index);

/// Returns the key of the bytes that the peer may read.
uint64_t SourceKey(const Stream& stream);

}  // namespace soak
