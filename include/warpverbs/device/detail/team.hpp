#pragma once

#include "warpverbs/device/cooperation.hpp"
#include "warpverbs/device/status.hpp"

namespace warpverbs::device {

/// Those who make a call, seen by one of them. The last one leads: it reserves, and rings for its own WQE.
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
  WARPVERBS_DEVICE uint32_t Share(uint32_t value) const { return value; }
  WARPVERBS_DEVICE Code Share(Code code) const { return code; }
};

template <arch::Arch A>
class Team<A, Warp> {
 public:
  WARPVERBS_DEVICE explicit Team(Warp warp) : lanes_(warp.lanes) {}

  WARPVERBS_DEVICE arch::LaneMask lanes() const { return lanes_; }
  WARPVERBS_DEVICE uint32_t size() const { return static_cast<uint32_t>(__builtin_popcountll(lanes_)); }
  WARPVERBS_DEVICE uint32_t rank() const {
    return static_cast<uint32_t>(__builtin_popcountll(lanes_ & ((arch::LaneMask{1} << A::Lane()) - 1)));
  }
  WARPVERBS_DEVICE bool Leads() const { return A::Lane() == Last(lanes_); }

  WARPVERBS_DEVICE void Gather() const {}
  /// What the others have stored is visible to who leads.
  WARPVERBS_DEVICE void Join() const { A::SyncLanes(lanes_); }
  /// What the leader says.
  WARPVERBS_DEVICE uint32_t Share(uint32_t value) const { return A::Shuffle(lanes_, value, Last(lanes_)); }
  WARPVERBS_DEVICE Code Share(Code code) const {
    return static_cast<Code>(Share(static_cast<uint32_t>(code)));
  }
  WARPVERBS_DEVICE bool All(bool mine) const { return A::Ballot(lanes_, mine) == lanes_; }

  /// The highest lane of a mask that is not empty.
  WARPVERBS_DEVICE static uint32_t Last(arch::LaneMask lanes) {
    return 63 - static_cast<uint32_t>(__builtin_clzll(lanes));
  }

 private:
  arch::LaneMask lanes_;
};

template <arch::Arch A>
class Team<A, Block> : public Team<A, Warp> {
 public:
  WARPVERBS_DEVICE explicit Team(Block block) : Team<A, Warp>(block) {}
  WARPVERBS_DEVICE void Gather() const { A::SyncBlock(); }
};

}  // namespace warpverbs::device
