#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "warpverbs/arch/arch.hpp"

namespace warpverbs::inline v0_2::arch::cpu {

inline constexpr uint32_t kMaxLanes = 64;

/// What each lane of a warp brought; 0 for those that did not take part.
using LaneValues = std::array<uint64_t, kMaxLanes>;

/// Aborts with a sentence unless `condition` holds: a GPU would hang or go on with garbage.
inline void Require(bool condition, const char* otherwise) {
  if (condition) return;
  std::fprintf(stderr, "warpverbs: %s\n", otherwise);
  std::abort();
}

/// Where a thread stands among those that it cooperates with. This one is alone: a warp of one lane, a block
/// of one thread.
class Place {
 public:
  virtual ~Place() = default;

  virtual uint32_t lane() const { return 0; }
  virtual uint32_t block_threads() const { return 1; }
  virtual uint32_t block_rank() const { return 0; }

  /// Waits until every lane of `mask` has called it, and returns what they brought.
  virtual LaneValues AllGather(LaneMask mask, uint64_t value) {
    Require(mask == 1, "a warp of one lane names other lanes than its own");
    return {value};
  }

  /// Waits until every thread of the block has called it or has ended.
  virtual void SyncBlock() {}

  /// SyncBlock() that says whether all threads said true, or what the one that `brings` brought.
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
