#pragma once

#include <cstdint>

#include "warpverbs/arch/arch.hpp"

/// The peers that can be reached, as far as the host knows. The host library fills the table:
/// host/peer_table.hpp.
namespace warpverbs::inline v0_2::device {

enum class PeerState : uint32_t {
  kDisconnected,  ///< not connected yet, or no longer
  kConnected,
  kFailed,  ///< connection that an event or an error has ended; lasts until the host resets it
};

/// The description of a table of peers that a kernel gets by value.
struct PeersView {
  const uint32_t* states;  ///< a PeerState for each rank
  uint32_t count;
};

/// The states of a set of peers, as a kernel reads them.
///
/// A state may be outdated: a peer may be dead before the host knows. States are not ordered with data or
/// completions.
template <arch::Arch A>
class Peers {
 public:
  WARPVERBS_DEVICE explicit Peers(const PeersView& view) : view_(view) {}

  WARPVERBS_DEVICE uint32_t count() const { return view_.count; }

  /// Reads one word, which may be in host memory: too expensive for every post.
  ///
  /// @return  kDisconnected if no peer has the rank
  WARPVERBS_DEVICE PeerState State(uint32_t rank) const {
    if (rank >= view_.count) return PeerState::kDisconnected;
    return static_cast<PeerState>(A::Load32(view_.states + rank));
  }

  WARPVERBS_DEVICE bool Alive(uint32_t rank) const { return State(rank) == PeerState::kConnected; }

  /// Returns the lanes whose peers are alive; each lane asks for a peer of its own.
  ///
  /// @param lanes  all lanes that make this call together, as for Warp
  WARPVERBS_DEVICE arch::LaneMask Alive(arch::LaneMask lanes, uint32_t rank) const {
    return A::Ballot(lanes, Alive(rank));
  }

 private:
  PeersView view_;
};

}  // namespace warpverbs::inline v0_2::device
