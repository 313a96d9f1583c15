#pragma once

#include <cstdint>

#include "warpverbs/mlx5/endian.hpp"

/// Memory that operations use. The host swaps the keys once (mlx5::ToBe32), so that kernels need not.
namespace warpverbs::inline v0_2::device {

/// Memory of the peer.
struct RemoteMemory {
  uint64_t addr;
  mlx5::Be32 rkey;
};

/// Memory of this side. With 0 bytes it is an empty message, or no entry.
struct LocalMemory {
  uint64_t addr;
  uint64_t bytes;
  mlx5::Be32 lkey;
};

/// The operations that a region allows.
enum Rights : uint32_t {
  kLocal = 1,     ///< region of this side, with an lkey; otherwise of the peer, with an rkey
  kWritable = 2,  ///< receives, reads and fetches; writes of the peer
  kReadable = 4,  ///< reads of the peer
  kAtomic = 8,    ///< atomics of the peer
  kRelaxed = 16,  ///< relaxed ordering: no signals, no data before them, no atomics
};

/// Memory that a checked build (WARPVERBS_CHECKED) allows.
struct Region {
  uint64_t addr;
  uint64_t bytes;
  uint32_t key_be;
  uint32_t rights;  ///< Rights
};

/// The regions of one side that a checked build allows.
struct RegionTable {
  const Region* regions;
  uint32_t count;
};

}  // namespace warpverbs::inline v0_2::device
