#include "warpverbs/host/peer_table.hpp"

#include <string>

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

PeerTable::PeerTable(uint32_t peers, const Gpu* gpu) : pages_(CheckedBytes(peers)), tallies_(peers) {
  if (gpu != nullptr) mapping_.emplace(*gpu, pages_.bytes());
}

PeerState PeerTable::State(uint32_t rank) const { return device::Peers<Cpu>(View()).State(rank); }

void PeerTable::Count(uint32_t rank, PeerState from, PeerState to) {
  Tally& tally = tallies_[rank];
  if (from == PeerState::kConnected) --tally.connected;
  if (from == PeerState::kFailed) --tally.failed;
  if (to == PeerState::kConnected) ++tally.connected;
  if (to == PeerState::kFailed) ++tally.failed;
  const PeerState state = tally.failed != 0      ? PeerState::kFailed
                          : tally.connected != 0 ? PeerState::kConnected
                                                 : PeerState::kDisconnected;
  Cpu::StoreRelease(states() + rank, static_cast<uint32_t>(state));
}

PeerTable::Attachment::Attachment(PeerTable& table, uint32_t rank) : table_(table), rank_(rank) {
  if (rank < table.count()) return;
  throw Error("create", "an endpoint to peer " + std::to_string(rank),
              "its table has " + std::to_string(table.count()) + " peers",
              "Set EndpointConfig::peer_rank below that");
}

PeerTable::Attachment::~Attachment() { Set(PeerState::kDisconnected); }

void PeerTable::Attachment::Set(PeerState state) {
  const std::lock_guard lock(table_.mutex_);
  if (state == state_ || (state == PeerState::kConnected && state_ == PeerState::kFailed)) return;
  table_.Count(rank_, state_, state);
  state_ = state;
}

}  // namespace warpverbs::inline v0_2::host
