#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "host/device/owner_process.hpp"
#include "nics.hpp"
#include "warpverbs/host/region_cache.hpp"
#include "warpverbs/transport/memory.hpp"

namespace warpverbs::inline v0_2::transport {

/// The keys of registered memory, and the objects that keep the keys valid.
struct Registration::Keys {
  /// @errors  host::Error
  Keys(void* data, size_t size, int device, uint32_t max_nics, bool writable);

  /// Says whether the keys belong to this opening of a NIC.
  bool AreOf(size_t nic, const host::Device& opened) const {
    return nic < nics->devices().size() && nics->devices()[nic].get() == &opened;
  }

  host::OwnerProcess owner;
  std::shared_ptr<Nics> nics;
  host::RegionCache::Lease lease;
  std::array<uint32_t, AccessKey::kMaxNics> lkeys{};
  AccessKey remote;
};

}  // namespace warpverbs::inline v0_2::transport
