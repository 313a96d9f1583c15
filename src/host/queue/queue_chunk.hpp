#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "memory/umem.hpp"
#include "queue/free_space.hpp"
#include "queue/queue_memory.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::inline v0_2::host {

/// Memory that queues lie in, of one endpoint or of many: one registration, one mapping. Whole pages, zeroed.
class QueueChunk {
 public:
  /// Takes the first that works: GPU memory by dma-buf, GPU memory by its address, host memory.
  ///
  /// @param sink_bytes  how many bytes from config.sink on work requests may name
  /// @errors  Error: says of each way that was to be tried why it failed
  QueueChunk(const Device& device, const QueueMemoryConfig& config, size_t sink_bytes);

  std::byte* data() const { return gpu_memory_ ? gpu_memory_->data() : pages_->data(); }
  size_t size() const { return gpu_memory_ ? gpu_memory_->size() : pages_->size(); }
  const GpuMemory* gpu_memory() const { return gpu_memory_ ? &*gpu_memory_ : nullptr; }
  uint32_t umem_id() const { return umem_->id(); }
  uint32_t sink_lkey() const { return sink_->View().lkey; }

  /// Says in words where it lies, how the NIC reaches it, and why.
  std::string Describe() const;

  FreeSpace& places() { return *places_; }  ///< those of a pool's endpoints

 private:
  void PlaceOnGpu(const Device& device, const QueueMemoryConfig& config, size_t sink_bytes);
  void PlaceOnHost(const Device& device, const QueueMemoryConfig& config, size_t sink_bytes);

  std::optional<GpuMemory> gpu_memory_;  // or
  std::optional<HostPages> pages_;
  std::optional<GpuMapping> mapping_;
  RegistrationMethod method_ = RegistrationMethod::kHost;
  std::string why_;
  std::optional<MemoryRegion> sink_;
  std::optional<Umem> umem_;
  std::optional<FreeSpace> places_;
};

/// Host memory that no NIC reaches, mapped for the GPU if there is one. Whole pages, zeroed.
class HostChunk {
 public:
  /// @errors  Error
  HostChunk(const Gpu* gpu, size_t bytes);

  std::byte* data() const { return pages_.data(); }
  size_t size() const { return pages_.size(); }
  FreeSpace& places() { return places_; }  ///< those of a pool's endpoints

 private:
  HostPages pages_;
  std::optional<GpuMapping> mapping_;
  FreeSpace places_;
};

/// All of a chunk of its own.
///
/// @errors  Error
std::shared_ptr<std::byte> OwnHostMemory(const Gpu* gpu, size_t bytes);

/// A place in a chunk; null: it has no room. The place is given back when the last pointer goes, and keeps
/// the chunk until then.
template <class Chunk>
std::shared_ptr<std::byte> TakePlace(const std::shared_ptr<Chunk>& chunk, size_t bytes) {
  const std::optional<size_t> offset = chunk->places().Take(bytes);
  if (!offset) return nullptr;
  return {chunk->data() + *offset, [chunk, at = *offset](std::byte*) { chunk->places().Give(at); }};
}

}  // namespace warpverbs::inline v0_2::host
