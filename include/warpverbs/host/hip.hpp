#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "warpverbs/host/buffer.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

class HipDevice;  // the library's own

/// An AMD GPU, by the HIP runtime.
///
/// The runtime, libamdhip64.so with libhsa-runtime64.so, is loaded by the first call and not before; one that
/// the program has loaded is taken. Whatever is done on a GPU leaves the caller's current device as it was.
/// Copies of a HipGpu are the same GPU; what is made with one keeps what it needs of it. Thread-safe.
class WARPVERBS_EXPORT HipGpu {
 public:
  /// How many there are; 0 also without a runtime.
  static int Count();

  /// @param ordinal  as hipSetDevice() counts: from 0, in the order of HIP_VISIBLE_DEVICES
  /// @errors  Error: there is no runtime, it is too old, or the GPU does not exist
  explicit HipGpu(int ordinal = 0);

  int ordinal() const;
  std::string name() const;                ///< "hip:0"
  const std::string& pci_address() const;  ///< "0000:c1:00.0"

  const std::shared_ptr<const HipDevice>& device() const { return device_; }

 private:
  std::shared_ptr<const HipDevice> device_;
};

/// How a GPU caches memory of its own, and so which kernels see what a NIC writes there.
enum class HipCaching : uint8_t {
  kUncached,     ///< kernels that run meanwhile see it, too
  kFineGrained,  ///< likewise, where the GPU keeps such memory coherent
  kCached,       ///< kernels that start later see it: for data alone, which hipMalloc() serves as well
};

/// Memory of an AMD GPU. NICs reach it by dma-buf, or by its address where the driver has peer-direct. Copies
/// and allocations may wait for kernels.
class WARPVERBS_EXPORT HipMemoryKind final : public MemoryKind {
 public:
  explicit HipMemoryKind(HipGpu gpu, HipCaching caching = HipCaching::kUncached)
      : gpu_(std::move(gpu)), caching_(caching) {}
  std::string name() const override { return "memory of " + gpu_.name(); }
  std::unique_ptr<Buffer> Allocate(size_t bytes) const override;

 private:
  HipGpu gpu_;
  HipCaching caching_;
};

}  // namespace warpverbs::inline v0_2::host
