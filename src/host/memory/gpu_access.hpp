#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// Two ways to let a NIC reach the same memory of a GPU. Each throws Error if it does not work.
struct GpuLadder {
  std::function<void(const DmaBuf&)> by_dma_buf;
  std::function<void()> by_address;  ///< for nvidia_peermem
  bool is_closed_vmm = false;        ///< it is memory of cuMemCreate() that no NIC may reach
};

/// Goes the first way that works.
///
/// @param object  what the error calls it
/// @errors  Error: has the reason of each way
MemoryRung Climb(const GpuLadder& ladder, const Gpu& gpu, void* memory, size_t bytes,
                 const std::string& object);

}  // namespace warpverbs::host
