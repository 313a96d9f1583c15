#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "warpverbs/device/rails.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/region_cache.hpp"
#include "warpverbs/host/topology.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// The configuration of a set of rails.
struct RailSetConfig {
  EndpointConfig endpoint{};        ///< configuration of each rail
  uint32_t queue_pairs = 1;         ///< rails on each NIC; on all of them together 1 to 8
  uint64_t cut_bytes = 256 * 1024;  ///< a write of twice as many bytes or more is cut over rails
};

/// The rails to one peer: 1 to 8 endpoints on the NICs of one GPU, behind one handle for kernels,
/// device::Rails.
class WARPVERBS_EXPORT RailSet {
 public:
  /// @param devices  NICs, the nearest first; must outlive this. Adjacent rails are on different NICs
  /// @errors  Error: no device, more than 8 rails, cut_bytes is 0; as Endpoint
  explicit RailSet(std::span<const Device* const> devices, const RailSetConfig& config = {});
  ~RailSet();
  RailSet(const RailSet&) = delete;
  RailSet& operator=(const RailSet&) = delete;

  uint32_t size() const;
  Endpoint& operator[](uint32_t rail) const;

  /// Returns what a kernel needs, by value.
  device::RailsView View() const;

  /// Returns memory with this side's keys, or with those for the peer, which swaps them by any means.
  ///
  /// @param regions  memory registered on the devices of this set
  /// @errors  Error: a device does not reach the memory, or is none of the regions'
  device::RailLocalMemory Local(const RegionSet& regions) const;
  device::RailRemoteMemory Remote(const RegionSet& regions) const;

  /// Describes each rail: its NIC, and what Endpoint::Describe() says.
  std::string Describe() const;

 private:
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  uint64_t cut_bytes_;
};

/// Opens the NICs of a GPU, nearest first, as AssignNics() has chosen them.
///
/// @errors  Error: as Device
WARPVERBS_EXPORT std::vector<std::unique_ptr<Device>> OpenNics(const GpuNics& nics);

/// Connects sets of rails to as many of a peer: the first rail to the first, and so on.
///
/// @errors  Error: as ConnectAll() of endpoints; a set of the peer has another number of rails
WARPVERBS_EXPORT void ConnectAll(std::span<RailSet* const> sets, Exchange& exchange, Deadline deadline,
                                 const ConnectOptions& options = {});

}  // namespace warpverbs::inline v0_2::host
