#pragma once

#include <cstddef>
#include <cstdint>

namespace verbs {

/// Zeroed memory of a fake GPU.
class GpuMemory {
 public:
  GpuMemory(int gpu, size_t bytes);
  ~GpuMemory() { Free(); }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  uint64_t address() const { return address_; }
  void* pointer() const { return reinterpret_cast<void*>(address_); }
  /// Returns the address at which the test accesses the memory.
  uint8_t* data() const { return data_; }

  /// Frees the memory before this object is destroyed.
  void Free();
  /// Exports whole pages from its start.
  ///
  /// @return  descriptor of a dma-buf, which the caller owns
  int Export(size_t bytes) const;

 private:
  int gpu_;
  uint64_t address_ = 0;
  uint8_t* data_ = nullptr;
};

}  // namespace verbs
