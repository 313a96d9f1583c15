#pragma once

#include <cstdint>

#include "warpverbs/arch/arch.hpp"

/// Which peers can be reached, as far as the host knows. Filled by the host library; see host/peer_table.hpp.
namespace warpverbs::inline v0_2::device {

enum class PeerState : uint32_t {
  kDisconnected,  ///< not connected yet, or not any more
  kConnected,
  kFailed,  ///< an event or an error has ended a connection to it; until the host resets that
};

/// What a kernel needs of a table of peers, by value.
struct PeersView {
  const uint32_t* states;  ///< a PeerState for each rank
  uint32_t count;
};

/// The states of a set of peers, as a kernel reads them.
///
/// A state is news of the host, no promise: a peer may be dead and not be known to be. It comes in no order
/// with data or completions.
template <arch::Arch A>
class Peers {
 public:
  WARPVERBS_DEVICE explicit Peers(const PeersView& view) : view_(view) {}

  WARPVERBS_DEVICE uint32_t count() const { return view_.count; }

  /// Reads one word, which may lie in host memory: too dear for every post.
  ///
  /// @param rank  of no peer: kDisconnected
  WARPVERBS_DEVICE PeerState State(uint32_t rank) const {
    if (rank >= view_.count) return PeerState::kDisconnected;
    return static_cast<PeerState>(A::Load32(view_.states + rank));
  }

  WARPVERBS_DEVICE bool Alive(uint32_t rank) const { return State(rank) == PeerState::kConnected; }

  /// The lanes whose peers are alive, each lane asking for one of its own.
  ///
  /// @param lanes  all of them call this together, with the same mask, as for Warp
  WARPVERBS_DEVICE arch::LaneMask Alive(arch::LaneMask lanes, uint32_t rank) const {
    return A::Ballot(lanes, Alive(rank));
  }

 private:
  PeersView view_;
};

}  // namespace warpverbs::inline v0_2::device
