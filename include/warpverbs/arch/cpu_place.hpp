#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "warpverbs/arch/arch.hpp"

namespace warpverbs::inline v0_2::arch::cpu {

inline constexpr uint32_t kMaxLanes = 64;

/// The value of each lane of a warp; 0 for lanes that did not take part.
using LaneValues = std::array<uint64_t, kMaxLanes>;

/// Aborts with a sentence unless `condition` holds: a GPU would hang or continue with garbage.
inline void Require(bool condition, const char* otherwise) {
  if (condition) return;
  std::fprintf(stderr, "warpverbs: %s\n", otherwise);
  std::abort();
}

/// The place of a thread in its warp and block. The base class is for a thread on its own: a warp of one
/// lane, a block of one thread.
class Place {
 public:
  virtual ~Place() = default;

  virtual uint32_t lane() const { return 0; }
  virtual LaneMask warp_lanes() const { return 1; }
  virtual uint32_t block_threads() const { return 1; }
  virtual uint32_t block_rank() const { return 0; }

  /// Waits until every lane of `mask` has called it, and returns their values.
  virtual LaneValues AllGather(LaneMask mask, uint64_t value) {
    Require(mask == 1, "a warp of one lane names other lanes than its own");
    return {value};
  }

  /// Waits until every thread of the block has called it or has ended.
  virtual void SyncBlock() {}

  /// Syncs the block, and returns whether all threads passed true, or the value of the thread that `brings`
  /// it.
  virtual bool AllOfBlock(bool mine) { return mine; }
  virtual uint64_t ShareInBlock(uint64_t value, bool /*brings*/) { return value; }

  LaneMask Ballot(LaneMask mask, bool vote) {
    const LaneValues votes = AllGather(mask, vote ? 1 : 0);
    LaneMask yes = 0;
    for (uint32_t lane = 0; lane < kMaxLanes; ++lane) yes |= votes[lane] << lane;
    return yes;
  }
  uint64_t Shuffle(LaneMask mask, uint64_t value, uint32_t from) {
    Require(from < kMaxLanes && (mask >> from & 1) != 0, "a shuffle names a lane out of its mask");
    return AllGather(mask, value)[from];
  }
};

/// The place of every thread that RunBlock() does not run.
inline constinit Place alone;

/// The calling thread's place.
inline constinit thread_local Place* place = &alone;

}  // namespace warpverbs::inline v0_2::arch::cpu
