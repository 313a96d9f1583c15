#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::host {

/// A range of a GPU's memory as a file, which the kernel knows how to reach. Closed with this.
class DmaBuf {
 public:
  /// Exports the pages that a range lies in.
  ///
  /// @pre  the range is one allocation's
  /// @errors  Error
  DmaBuf(const Gpu& gpu, const void* memory, size_t bytes);
  ~DmaBuf();
  DmaBuf(const DmaBuf&) = delete;
  DmaBuf& operator=(const DmaBuf&) = delete;

  int fd() const { return fd_; }
  uint64_t OffsetOf(const void* memory) const;
  size_t size() const { return size_; }

 private:
  uint64_t start_;
  size_t size_;
  int fd_ = -1;
};

/// What the driver says of an address.
struct GpuPointer {
  int ordinal = 0;
  bool managed = false;
};

/// Says whether memory is a GPU's. Loads no driver: where there is none, there is no such memory.
std::optional<GpuPointer> FindOnGpu(const void* memory);

/// Two ways to let a NIC reach the same memory of a GPU. Each throws Error if it does not work.
struct GpuLadder {
  std::function<void(const DmaBuf&)> by_dma_buf;
  std::function<void()> by_address;  ///< for nvidia_peermem
  bool may_be_vmm = false;           ///< somebody else has allocated it, maybe by cuMemCreate()
};

/// Goes the first way that works.
///
/// @param object  what the error calls it
/// @errors  Error: has the reason of each way
MemoryRung Climb(const GpuLadder& ladder, const Gpu& gpu, void* memory, size_t bytes,
                 const std::string& object);

}  // namespace warpverbs::host
