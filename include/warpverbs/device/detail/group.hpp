#pragma once

#include "warpverbs/device/cooperation.hpp"
#include "warpverbs/device/status.hpp"

namespace warpverbs::inline v0_2::device {

/// The threads that make a call together, as one of them sees them.
///
/// The last one leads: it reserves the slots and rings the doorbell for its own WQE. Every thread of the
/// group calls SyncEnter(), Sync(), AllTrue() and Broadcast().
template <arch::Arch A, Cooperation C>
class Group;

template <arch::Arch A>
class Group<A, Thread> {
 public:
  WARPVERBS_DEVICE explicit constexpr Group(Thread) {}
  WARPVERBS_DEVICE uint32_t size() const { return 1; }
  WARPVERBS_DEVICE uint32_t rank() const { return 0; }
  WARPVERBS_DEVICE bool IsLeader() const { return true; }
  WARPVERBS_DEVICE void SyncEnter() const {}
  WARPVERBS_DEVICE void Sync() const {}
  WARPVERBS_DEVICE bool AllTrue(bool mine) const { return mine; }
  template <class T>
  WARPVERBS_DEVICE T Broadcast(T value) const {
    return value;
  }
};

template <arch::Arch A>
class Group<A, Warp> {
 public:
  WARPVERBS_DEVICE explicit Group(Warp warp)
      : lanes_(warp.lanes),
        rank_(static_cast<uint32_t>(
            __builtin_popcountll(warp.lanes & ((arch::LaneMask{1} << A::Lane()) - 1)))) {}

  WARPVERBS_DEVICE arch::LaneMask lanes() const { return lanes_; }
  WARPVERBS_DEVICE uint32_t size() const { return static_cast<uint32_t>(__builtin_popcountll(lanes_)); }
  WARPVERBS_DEVICE uint32_t rank() const { return rank_; }
  WARPVERBS_DEVICE bool IsLeader() const { return rank_ + 1 == size(); }

  /// Begins a call.
  WARPVERBS_DEVICE void SyncEnter() const {}
  /// Makes what the other threads have stored visible to the leader.
  WARPVERBS_DEVICE void Sync() const { A::SyncLanes(lanes_); }
  WARPVERBS_DEVICE bool AllTrue(bool mine) const { return A::Ballot(lanes_, mine) == lanes_; }
  /// Broadcasts the leader's value to the group.
  template <std::unsigned_integral T>
  WARPVERBS_DEVICE T Broadcast(T value) const {
    return A::Shuffle(lanes_, value, Last(lanes_));
  }
  WARPVERBS_DEVICE Code Broadcast(Code code) const {
    return static_cast<Code>(Broadcast(static_cast<uint32_t>(code)));
  }

  /// Returns the highest lane of a mask that is not empty.
  WARPVERBS_DEVICE static uint32_t Last(arch::LaneMask lanes) {
    return 63 - static_cast<uint32_t>(__builtin_clzll(lanes));
  }

 private:
  arch::LaneMask lanes_;
  uint32_t rank_;
};

template <arch::Arch A>
class Group<A, Block> {
 public:
  WARPVERBS_DEVICE explicit Group(Block block) : warp_(block) {}

  /// Returns the part of the group that is in the caller's warp.
  WARPVERBS_DEVICE const Group<A, Warp>& warp() const { return warp_; }
  WARPVERBS_DEVICE uint32_t size() const { return A::BlockThreads(); }
  WARPVERBS_DEVICE uint32_t rank() const { return A::BlockRank(); }
  WARPVERBS_DEVICE bool IsLeader() const { return rank() + 1 == size(); }

  WARPVERBS_DEVICE void SyncEnter() const { A::SyncBlock(); }
  WARPVERBS_DEVICE void Sync() const { A::SyncBlock(); }
  WARPVERBS_DEVICE bool AllTrue(bool mine) const { return A::AllOfBlock(mine); }
  /// @pre  SyncEnter(), Sync() or AllTrue() came between this call and the previous one
  template <class T>
  WARPVERBS_DEVICE T Broadcast(T value) const {
    return static_cast<T>(A::ShareInBlock(static_cast<uint64_t>(value), IsLeader()));
  }

 private:
  Group<A, Warp> warp_;
};

}  // namespace warpverbs::inline v0_2::device
