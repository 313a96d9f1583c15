#include "warpverbs/host/peer_table.hpp"

#include <string>
#include <vector>

#include "sync/mutex.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using arch::Cpu;
using device::PeerState;

size_t CheckedBytes(uint32_t peers) {
  if (peers == 0) throw Error("create", "a table of peers", "it would be empty", "Pass at least one peer");
  return size_t{peers} * sizeof(uint32_t);
}

}  // namespace

/// How many endpoints see a peer as connected, and as failed.
class PeerTable::Tallies {
 public:
  explicit Tallies(uint32_t peers) : tallies_(peers) {}

  sync::Mutex& mutex() WARPVERBS_RETURNS(mutex_) { return mutex_; }

  /// Counts one endpoint's change. Returns the state of the peer.
  PeerState Count(uint32_t rank, PeerState from, PeerState to) WARPVERBS_REQUIRES(mutex_) {
    Tally& tally = tallies_[rank];
    if (from == PeerState::kConnected) --tally.connected;
    if (from == PeerState::kFailed) --tally.failed;
    if (to == PeerState::kConnected) ++tally.connected;
    if (to == PeerState::kFailed) ++tally.failed;
    if (tally.failed != 0) return PeerState::kFailed;
    return tally.connected != 0 ? PeerState::kConnected : PeerState::kDisconnected;
  }

 private:
  struct Tally {
    uint32_t connected = 0, failed = 0;
  };

  sync::Mutex mutex_;
  std::vector<Tally> tallies_ WARPVERBS_GUARDED_BY(mutex_);  // by rank
};

PeerTable::PeerTable(uint32_t peers, const Gpu* gpu)
    : pages_(CheckedBytes(peers)), count_(peers), tallies_(std::make_unique<Tallies>(peers)) {
  if (gpu != nullptr) mapping_.emplace(*gpu, pages_.bytes());
}

PeerTable::~PeerTable() = default;

PeerState PeerTable::State(uint32_t rank) const { return device::Peers<Cpu>(View()).State(rank); }

PeerTable::Attachment::Attachment(PeerTable& table, uint32_t rank) : table_(table), rank_(rank) {
  if (rank < table.count()) return;
  throw Error("create", "an endpoint to peer " + std::to_string(rank),
              "its table has " + std::to_string(table.count()) + " peers",
              "Set EndpointConfig::peer_rank below that");
}

PeerTable::Attachment::~Attachment() { Set(PeerState::kDisconnected); }

void PeerTable::Attachment::Set(PeerState state) {
  const sync::LockGuard lock(table_.tallies_->mutex());
  if (state == state_ || (state == PeerState::kConnected && state_ == PeerState::kFailed)) return;
  const PeerState common = table_.tallies_->Count(rank_, state_, state);
  Cpu::StoreRelease(table_.states() + rank_, static_cast<uint32_t>(common));
  state_ = state;
}

}  // namespace warpverbs::inline v0_2::host
