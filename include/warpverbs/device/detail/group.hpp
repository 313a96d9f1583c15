#pragma once

#include "warpverbs/device/cooperation.hpp"
#include "warpverbs/device/status.hpp"

namespace warpverbs::inline v0_2::device {

/// A sum over the ranks of a group, as one of its threads sees it.
struct RankSum {
  uint32_t before;  ///< sum of the lower ranks
  uint32_t all;
};

/// A range of the items that a group's warps divide among them.
struct Share {
  uint32_t begin, end;
};

/// The threads that make a call together, as one of them sees them.
///
/// The last one leads: it reserves the slots and rings the doorbell for its own WQE. Every thread of the
/// group calls SyncEnter(), Sync(), AllTrue(), Broadcast() and SumOverWarps().
template <arch::Arch A, Cooperation C>
class Group;

template <arch::Arch A>
class Group<A, Thread> {
 public:
  WARPVERBS_DEVICE explicit constexpr Group(Thread) {}
  WARPVERBS_DEVICE Group<A, Warp> warp() const {
    return Group<A, Warp>(Warp(arch::LaneMask{1} << A::Lane()));
  }
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
  WARPVERBS_DEVICE Share ShareOf(uint32_t items) const { return {0, items}; }
  WARPVERBS_DEVICE RankSum SumOverWarps(uint32_t of_warp) const { return {0, of_warp}; }
};

template <arch::Arch A>
class Group<A, Warp> {
 public:
  WARPVERBS_DEVICE explicit Group(Warp warp)
      : lanes_(warp.lanes),
        rank_(A::Keep(static_cast<uint32_t>(
            __builtin_popcountll(warp.lanes & ((arch::LaneMask{1} << A::Lane()) - 1))))) {}

  WARPVERBS_DEVICE const Group& warp() const { return *this; }
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

  WARPVERBS_DEVICE Share ShareOf(uint32_t items) const { return {0, items}; }
  WARPVERBS_DEVICE RankSum SumOverWarps(uint32_t of_warp) const { return {0, of_warp}; }

  /// Adds up a number of each lane, bit by bit: mostly there is one bit.
  WARPVERBS_DEVICE RankSum Sum(uint32_t mine) const {
    const arch::LaneMask below = (arch::LaneMask{1} << A::Lane()) - 1;
    RankSum sum{};
    for (uint32_t bit = 0;; ++bit) {
      const arch::LaneMask set = A::Ballot(lanes_, (mine >> bit & 1) != 0);
      sum.before += static_cast<uint32_t>(__builtin_popcountll(set & below)) << bit;
      sum.all += static_cast<uint32_t>(__builtin_popcountll(set)) << bit;
      if (AllTrue(mine >> bit <= 1)) return sum;
    }
  }

  /// Returns the number of ranks up to and including a lane's.
  WARPVERBS_DEVICE uint32_t RanksThrough(uint32_t lane) const {
    return static_cast<uint32_t>(__builtin_popcountll(lanes_ & ((arch::LaneMask{2} << lane) - 1)));
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

  /// Returns the items of the caller's warp.
  WARPVERBS_DEVICE Share ShareOf(uint32_t items) const {
    const uint64_t first = rank() - warp_.rank();
    return {static_cast<uint32_t>(items * first / size()),
            static_cast<uint32_t>(items * (first + warp_.size()) / size())};
  }

  /// Adds up a number of each warp, which all its threads pass.
  ///
  /// @return  `before` is the sum of the warps below the caller's
  WARPVERBS_DEVICE RankSum SumOverWarps(uint32_t of_warp) const {
    const uint32_t own = rank() - warp_.rank();
    RankSum sum{};
    for (uint32_t first = 0; first < size();) {
      Sync();
      const uint64_t shared = A::ShareInBlock(A::Join(of_warp, warp_.size()), rank() == first);
      if (first < own) sum.before += static_cast<uint32_t>(shared);
      sum.all += static_cast<uint32_t>(shared);
      first += static_cast<uint32_t>(shared >> 32);
    }
    return sum;
  }

 private:
  Group<A, Warp> warp_;
};

}  // namespace warpverbs::inline v0_2::device
