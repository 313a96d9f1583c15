#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "host/device/owner_process.hpp"
#include "nics.hpp"
#include "warpverbs/host/region_cache.hpp"
#include "warpverbs/transport/memory.hpp"

namespace warpverbs::inline v0_2::transport {

/// The keys of registered memory, and the objects that keep the keys valid.
struct Registration::Keys {
  /// @errors  host::Error
  Keys(void* data, size_t size, int device, uint32_t max_nics, bool writable);
  Keys(const host::Buffer& buffer, int device, uint32_t max_nics);

  /// Says whether the keys belong to this opening of a NIC.
  bool AreOf(size_t nic, const host::Device& opened) const {
    return nic < nics->devices().size() && nics->devices()[nic].get() == &opened;
  }

  host::OwnerProcess owner;
  std::shared_ptr<Nics> nics;
  std::optional<host::RegionCache::Lease> lease;  // of memory that has an address here
  std::optional<host::RegionSet> regions;         // of a buffer
  std::array<uint32_t, AccessKey::kMaxNics> lkeys{};
  AccessKey remote;

 private:
  template <class Regions>
  void Take(const Regions& of);
};

}  // namespace warpverbs::inline v0_2::transport
