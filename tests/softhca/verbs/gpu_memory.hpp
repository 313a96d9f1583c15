#pragma once

#include <cstddef>
#include <cstdint>

namespace verbs {

/// Memory of a fake GPU, zeroed.
class GpuMemory {
 public:
  GpuMemory(int gpu, size_t bytes);
  ~GpuMemory() { Free(); }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  uint64_t address() const { return address_; }
  void* pointer() const { return reinterpret_cast<void*>(address_); }
  /// Where the test reaches it.
  uint8_t* data() const { return data_; }

  /// Frees it before its time.
  void Free();
  /// Exports whole pages from its start.
  ///
  /// @return  the descriptor of a dma-buf, the caller's
  int Export(size_t bytes) const;

 private:
  int gpu_;
  uint64_t address_ = 0;
  uint8_t* data_ = nullptr;
};

}  // namespace verbs
