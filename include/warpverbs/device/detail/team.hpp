#pragma once

#include "warpverbs/device/cooperation.hpp"
#include "warpverbs/device/status.hpp"

namespace warpverbs::inline v0_2::device {

/// Those who make a call, seen by one of them. The last one leads: it reserves, and rings for its own WQE.
/// All of them call Gather(), Join(), All() and Share() together.
template <arch::Arch A, class Cooperation>
class Team;

template <arch::Arch A>
class Team<A, Thread> {
 public:
  WARPVERBS_DEVICE explicit constexpr Team(Thread) {}
  WARPVERBS_DEVICE uint32_t size() const { return 1; }
  WARPVERBS_DEVICE uint32_t rank() const { return 0; }
  WARPVERBS_DEVICE bool Leads() const { return true; }
  WARPVERBS_DEVICE void Gather() const {}
  WARPVERBS_DEVICE void Join() const {}
  WARPVERBS_DEVICE bool All(bool mine) const { return mine; }
  template <class T>
  WARPVERBS_DEVICE T Share(T value) const {
    return value;
  }
};

template <arch::Arch A>
class Team<A, Warp> {
 public:
  WARPVERBS_DEVICE explicit Team(Warp warp)
      : lanes_(warp.lanes),
        rank_(static_cast<uint32_t>(
            __builtin_popcountll(warp.lanes & ((arch::LaneMask{1} << A::Lane()) - 1)))) {}

  WARPVERBS_DEVICE arch::LaneMask lanes() const { return lanes_; }
  WARPVERBS_DEVICE uint32_t size() const { return static_cast<uint32_t>(__builtin_popcountll(lanes_)); }
  WARPVERBS_DEVICE uint32_t rank() const { return rank_; }
  WARPVERBS_DEVICE bool Leads() const { return rank_ + 1 == size(); }

  /// Begins a call.
  WARPVERBS_DEVICE void Gather() const {}
  /// What the others have stored is visible to who leads.
  WARPVERBS_DEVICE void Join() const { A::SyncLanes(lanes_); }
  WARPVERBS_DEVICE bool All(bool mine) const { return A::Ballot(lanes_, mine) == lanes_; }
  /// What the leader says.
  template <std::unsigned_integral T>
  WARPVERBS_DEVICE T Share(T value) const {
    return A::Shuffle(lanes_, value, Last(lanes_));
  }
  WARPVERBS_DEVICE Code Share(Code code) const {
    return static_cast<Code>(Share(static_cast<uint32_t>(code)));
  }

  /// The highest lane of a mask that is not empty.
  WARPVERBS_DEVICE static uint32_t Last(arch::LaneMask lanes) {
    return 63 - static_cast<uint32_t>(__builtin_clzll(lanes));
  }

 private:
  arch::LaneMask lanes_;
  uint32_t rank_;
};

template <arch::Arch A>
class Team<A, Block> {
 public:
  WARPVERBS_DEVICE explicit Team(Block block) : warp_(block) {}

  /// The part of it that is in the caller's warp.
  WARPVERBS_DEVICE const Team<A, Warp>& warp() const { return warp_; }
  WARPVERBS_DEVICE uint32_t size() const { return A::BlockThreads(); }
  WARPVERBS_DEVICE uint32_t rank() const { return A::BlockRank(); }
  WARPVERBS_DEVICE bool Leads() const { return rank() + 1 == size(); }

  WARPVERBS_DEVICE void Gather() const { A::SyncBlock(); }
  WARPVERBS_DEVICE void Join() const { A::SyncBlock(); }
  WARPVERBS_DEVICE bool All(bool mine) const { return A::AllOfBlock(mine); }
  /// @pre  Gather(), Join() or All() came between this and the one before
  template <class T>
  WARPVERBS_DEVICE T Share(T value) const {
    return static_cast<T>(A::ShareInBlock(static_cast<uint64_t>(value), Leads()));
  }

 private:
  Team<A, Warp> warp_;
};

}  // namespace warpverbs::inline v0_2::device
