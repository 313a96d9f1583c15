#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/region_cache.hpp"

namespace warpverbs::inline v0_2::transport {

/// The open NICs of a device, and the caches of memory registered on them.
///
/// All transports and all memory of that device share them, because keys are valid only for the opening of a
/// NIC that they were made for.
class Nics {
 public:
  /// Returns the NICs of a device, and opens them if they are not open.
  ///
  /// @param device    ordinal of a GPU, whose nearest NICs are taken; on a machine without GPUs, index of the
  ///                  first NIC among those with an active port, modulo their number
  /// @param max_nics  largest number of NICs; 1..AccessKey::kMaxNics
  /// @errors  host::Error
  static std::shared_ptr<Nics> Of(int device, uint32_t max_nics);

  /// Returns the names of the NICs that a device gets if they are not open yet.
  ///
  /// @errors  host::Error
  static std::vector<std::string> NamesOf(int device, uint32_t max_nics);

  const std::vector<std::shared_ptr<host::Device>>& devices() const { return devices_; }

  /// @param writable  whether NICs, the peers' included, may write the memory
  host::RegionCache& cache(bool writable = true) { return writable ? cache_ : read_only_cache_; }

 private:
  explicit Nics(std::vector<std::shared_ptr<host::Device>> devices);

  std::vector<std::shared_ptr<host::Device>> devices_;
  host::RegionCache cache_, read_only_cache_;
};

}  // namespace warpverbs::inline v0_2::transport
