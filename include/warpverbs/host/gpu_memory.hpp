#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "warpverbs/host/gpu.hpp"

namespace warpverbs::host {

/// Memory on a GPU, zeroed, in whole pages of the GPU: no processor but through these calls may touch it.
///
/// The calls wait for their own work alone. Copies get through while kernels have all of the GPU; Fill()
/// needs a little of it.
class GpuMemory {
 public:
  static constexpr size_t kPageBytes = 65536;

  /// @errors  Error: out of memory, or 0 bytes
  GpuMemory(const Gpu& gpu, size_t bytes);

  const Gpu& gpu() const { return gpu_; }
  std::byte* data() const { return data_; }  ///< for kernels and NICs
  size_t size() const { return size_; }

  // Each throws std::out_of_range for a place outside, and Error where the driver fails.
  void CopyIn(size_t offset, std::span<const std::byte> from) const;
  void CopyOut(size_t offset, std::span<std::byte> to) const;
  void Fill(size_t offset, size_t bytes, std::byte value) const;

 private:
  struct Free {
    std::shared_ptr<const CudaContext> context;
    void operator()(std::byte* memory) const;
  };

  Gpu gpu_;
  size_t size_;
  std::unique_ptr<std::byte, Free> allocation_;
  std::byte* data_;  // in the allocation, from a page's start
};

/// Host memory that kernels of all GPUs reach at its own address, while this lives.
class GpuMapping {
 public:
  /// @param memory  whole pages; stays the caller's and must outlive this
  /// @errors  Error: the driver refuses, or the GPU sees it at another address
  GpuMapping(const Gpu& gpu, std::span<std::byte> memory);

 private:
  struct Unregister {
    std::shared_ptr<const CudaContext> context;
    void operator()(std::byte* memory) const;
  };

  std::unique_ptr<std::byte, Unregister> memory_;
};

}  // namespace warpverbs::host
