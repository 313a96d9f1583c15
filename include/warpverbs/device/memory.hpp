#pragma once

#include <cstdint>

#include "warpverbs/mlx5/endian.hpp"

/// Memory that operations name. The host swaps the keys once (mlx5::ToBe32), so that no kernel has to.
namespace warpverbs::inline v0_2::device {

/// Memory of the peer.
struct RemoteMemory {
  uint64_t addr;
  mlx5::Be32 rkey;
};

/// Memory of this side. 0 bytes make an empty message, or an entry that is not there.
struct LocalMemory {
  uint64_t addr;
  uint64_t bytes;
  mlx5::Be32 lkey;
};

/// What may be done with a region.
enum Rights : uint32_t {
  kLocal = 1,     ///< it has an lkey; else an rkey
  kWritable = 2,  ///< by receives, reads and fetches; by the peer's writes
  kReadable = 4,  ///< by the peer's reads
  kAtomic = 8,    ///< by the peer's atomics
  kRelaxed = 16,  ///< writes may pass each other there: no signal word, no data that one tells of, no atomics
};

/// Memory that a checked build (WARPVERBS_CHECKED) lets through.
struct Region {
  uint64_t addr;
  uint64_t bytes;
  uint32_t key_be;
  uint32_t rights;  ///< Rights
};

struct RegionTable {
  const Region* regions;
  uint32_t count;
};

}  // namespace warpverbs::inline v0_2::device
