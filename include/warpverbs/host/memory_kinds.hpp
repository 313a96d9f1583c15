#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/gpu.hpp"

/// The kinds of memory there are. A new one is a class of its own, and nothing else changes.
namespace warpverbs::host {

/// Pages of the host.
class HostMemoryKind final : public MemoryKind {
 public:
  std::string name() const override { return "host memory"; }
  std::unique_ptr<Buffer> Allocate(size_t bytes) const override;
};

/// Pages of the host that kernels of all GPUs reach at the same address.
class PinnedMemoryKind final : public MemoryKind {
 public:
  explicit PinnedMemoryKind(const Gpu& gpu) : gpu_(gpu) {}
  std::string name() const override { return "host memory mapped for " + gpu_.name(); }
  std::unique_ptr<Buffer> Allocate(size_t bytes) const override;

 private:
  Gpu gpu_;
};

/// Memory of an NVIDIA GPU, in whole pages of 64 KiB. An integrated GPU has none but the host's: that is
/// mapped for it.
class CudaMemoryKind final : public MemoryKind {
 public:
  explicit CudaMemoryKind(const Gpu& gpu) : gpu_(gpu) {}
  std::string name() const override { return "memory of " + gpu_.name(); }
  std::unique_ptr<Buffer> Allocate(size_t bytes) const override;

 private:
  Gpu gpu_;
};

/// Memory that somebody else has allocated, a framework for one, by its address.
///
/// @pre  it outlives what comes back; memory of a GPU, whoever made that, is one allocation's
/// @errors  Error: nobody's memory, or 0 bytes
std::unique_ptr<Buffer> WrapPointer(void* memory, size_t bytes);

/// Memory of which nothing but a file is known.
///
/// The processor copies to and from it where the file can be mapped, which that of a GPU cannot.
///
/// @param memory  where the part begins, as `file` counts
/// @errors  Error: the file has not all of it
std::unique_ptr<Buffer> WrapDmaBuf(DmaBuf file, void* memory, size_t bytes);

}  // namespace warpverbs::host
