#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

class CudaContext;  // the library's own

/// Which kernels see a NIC's writes to a GPU's memory in the order of writing, while they run.
enum class WritesOrdering : uint8_t {
  kNone,        ///< nobody: a read that has completed may be followed by a DUMP of its data
  kOwner,       ///< kernels of that GPU
  kAllDevices,  ///< kernels of any GPU
};

/// What a GPU offers to NICs.
struct GpuAttributes {
  bool integrated = false;      ///< its memory is the host's
  bool dma_buf = false;         ///< its driver exports its memory as dma-bufs
  bool gpu_direct = false;      ///< a NIC may reach its memory
  bool gpu_direct_vmm = false;  ///< also that of cuMemCreate()
  bool host_flush = false;      ///< the host can wait until what a NIC wrote is visible
  bool stream_flush = false;    ///< a stream can do that
  WritesOrdering writes_ordering = WritesOrdering::kNone;
};

/// An NVIDIA GPU, by its primary context, which the CUDA runtime uses too.
///
/// The driver, libcuda.so.1, is loaded by the first call and not before. Whatever is done on a GPU leaves the
/// caller's current context as it was and waits for no kernel, except that allocating and freeing memory may
/// and Buffer::Flush() shall.
/// Copies of a Gpu are the same GPU; what is made with one keeps what it needs of it. Thread-safe.
class WARPVERBS_EXPORT Gpu {
 public:
  /// How many there are; 0 also without a driver.
  static int Count();

  /// @param ordinal  as the CUDA runtime counts: from 0, in the order of CUDA_VISIBLE_DEVICES
  /// @errors  Error: there is no driver, it is too old or broken, or the GPU does not exist
  explicit Gpu(int ordinal = 0);

  int ordinal() const;
  std::string name() const;                ///< "cuda:0"
  const std::string& model() const;        ///< "NVIDIA H200"
  const std::string& pci_address() const;  ///< "0000:41:00.0"
  const GpuAttributes& attributes() const;

  const std::shared_ptr<const CudaContext>& context() const { return context_; }

 private:
  std::shared_ptr<const CudaContext> context_;
};

WARPVERBS_EXPORT const char* ToString(WritesOrdering ordering);

/// Memory on a GPU, zeroed, in whole pages of the GPU: no processor but through these calls may touch it.
///
/// The calls wait for their own work alone. Copies get through while kernels have all of the GPU; Fill()
/// needs a little of it.
class WARPVERBS_EXPORT GpuMemory {
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
  std::byte* data_ = nullptr;  // in the allocation, from a page's start
};

/// Host memory that kernels of all GPUs reach at its own address, while this lives.
class WARPVERBS_EXPORT GpuMapping {
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

}  // namespace warpverbs::inline v0_2::host
