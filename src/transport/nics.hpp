#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/region_cache.hpp"

namespace warpverbs::transport {

/// The NICs of a device, open, with the cache of what is registered on them. Shared by all transports and all
/// memory of that device in the process: keys of one opening of a NIC are worth nothing to another.
class Nics {
 public:
  /// @param device  the ordinal of a GPU, whose nearest NICs are taken; without GPUs, the number of the first
  ///                NIC among those with an active port, counted round
  /// @param most    how many NICs; there may be fewer. 1..AccessKey::kMaxNics
  /// @errors  host::Error
  static std::shared_ptr<Nics> Of(int device, uint32_t most);

  const std::vector<std::shared_ptr<host::Device>>& devices() const { return devices_; }
  host::RegionCache& cache() { return cache_; }

 private:
  explicit Nics(std::vector<std::shared_ptr<host::Device>> devices);

  std::vector<std::shared_ptr<host::Device>> devices_;
  host::RegionCache cache_;
};

}  // namespace warpverbs::transport
