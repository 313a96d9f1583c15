#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "warpverbs/device/peers.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// A word for each peer, which says whether it can be reached, in host memory that kernels read.
///
/// The endpoints that name it keep it: see EndpointConfig::peers. Where several lead to one peer, it has
/// failed once any of them has, and is connected while any of the others is. Thread-safe.
class WARPVERBS_EXPORT PeerTable {
 public:
  /// @param gpu  whose kernels read it, and those of all other GPUs; nullptr: threads of the CPU
  /// @errors  Error: no peers, out of memory, or the GPU cannot map it
  explicit PeerTable(uint32_t peers, const Gpu* gpu = nullptr);
  ~PeerTable();
  PeerTable(const PeerTable&) = delete;
  PeerTable& operator=(const PeerTable&) = delete;

  uint32_t count() const { return count_; }
  device::PeerState State(uint32_t rank) const;
  device::PeersView View() const { return {states(), count()}; }

  /// One endpoint's part in the state of a peer; with its end it counts no more.
  class Attachment {
   public:
    /// @param table  must outlive this
    /// @errors  Error: the rank is out of range
    Attachment(PeerTable& table, uint32_t rank);
    ~Attachment();
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;

    /// A failed one is not connected by this: it must be disconnected first.
    void Set(device::PeerState state);

   private:
    PeerTable& table_;
    uint32_t rank_;
    device::PeerState state_ = device::PeerState::kDisconnected;  // under the table's lock
  };

 private:
  class Tallies;

  uint32_t* states() const { return reinterpret_cast<uint32_t*>(pages_.data()); }

  HostPages pages_;
  std::optional<GpuMapping> mapping_;
  uint32_t count_;
  std::unique_ptr<Tallies> tallies_;
};

}  // namespace warpverbs::inline v0_2::host
