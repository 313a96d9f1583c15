// Memory for data: of the host, or of the GPU whose kernels use it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu_memory.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/queue_memory.hpp"

/// Zeroed memory that kernels and a NIC reach.
class Buffer {
 public:
  /// @param gpu        whose kernels use it; nullptr: threads of the CPU
  /// @param placement  as with queues
  Buffer(const warpverbs::host::Device& device, const warpverbs::host::Gpu* gpu,
         warpverbs::host::Placement placement, size_t bytes, const warpverbs::host::Access& access) {
    using warpverbs::host::Placement;
    if (gpu != nullptr && placement != Placement::kHost) {
      try {
        on_gpu_ = std::make_unique<warpverbs::host::GpuMemory>(*gpu, bytes);
        Register(device, on_gpu_->data(), bytes, access);
        return;
      } catch (const warpverbs::host::Error&) {
        if (placement == Placement::kGpu) throw;
        on_gpu_.reset();  // the host's will do
      }
    }
    on_host_ = std::make_unique<warpverbs::host::HostPages>(bytes);
    if (gpu != nullptr) mapping_ = std::make_unique<warpverbs::host::GpuMapping>(*gpu, on_host_->bytes());
    Register(device, on_host_->data(), bytes, access);
  }

  bool on_gpu() const { return on_gpu_ != nullptr; }
  warpverbs::host::MemoryView View() const { return region_->View(); }
  const char* Where() const { return ToString(region_->method()); }

  void Fill(std::byte value) const {
    const size_t bytes = View().bytes;
    if (on_gpu_) {
      on_gpu_->Fill(0, bytes, value);
    } else {
      std::fill_n(on_host_->data(), bytes, value);
    }
  }

 private:
  void Register(const warpverbs::host::Device& device, std::byte* memory, size_t bytes,
                const warpverbs::host::Access& access) {
    region_ = std::make_unique<warpverbs::host::MemoryRegion>(device, memory, bytes, access);
  }

  std::unique_ptr<warpverbs::host::GpuMemory> on_gpu_;  // or
  std::unique_ptr<warpverbs::host::HostPages> on_host_;
  std::unique_ptr<warpverbs::host::GpuMapping> mapping_;
  std::unique_ptr<warpverbs::host::MemoryRegion> region_;
};
