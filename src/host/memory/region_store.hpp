#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "warpverbs/device/memory.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::inline v0_2::host {

inline constexpr uint32_t kMaxRegions = 128;  ///< limit per endpoint in a checked build

/// The regions that a checked build allows, as a kernel reads them.
struct RegionStore {
  device::RegionTable table;
  std::array<device::Region, kMaxRegions> regions;

  /// Replaces the allowed regions.
  ///
  /// @param local   regions of this side, with the NIC's rights
  /// @param remote  regions that the peer sent
  /// @errors  Error: more than kMaxRegions in all, or a view without a key
  void Allow(std::span<const MemoryView> local, std::span<const MemoryView> remote);
};

}  // namespace warpverbs::inline v0_2::host
