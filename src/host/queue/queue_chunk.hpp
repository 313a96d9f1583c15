#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "memory/umem.hpp"
#include "queue/free_space.hpp"
#include "queue/queue_memory.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::inline v0_2::host {

/// Memory for the queues of one or more endpoints: zeroed pages with one registration and one mapping.
class QueueChunk {
 public:
  /// Takes the first that works: GPU memory by dma-buf, GPU memory by its address, host memory.
  ///
  /// @param sink_bytes  size of the region at config.sink that work requests may name; empty: up to the
  ///                    end of the chunk, which may be larger than config.bytes
  /// @errors  Error: names the reason why each attempt failed
  QueueChunk(const Device& device, const QueueMemoryConfig& config, std::optional<size_t> sink_bytes);

  std::byte* data() const { return bytes_.data(); }  ///< first byte that is registered
  size_t size() const { return bytes_.size(); }      ///< size of what is registered
  const GpuMemory* gpu_memory() const { return gpu_memory_ ? &*gpu_memory_ : nullptr; }
  size_t start() const { return start_; }  ///< offset of the first byte that has the alignment asked for
  uint32_t umem_id() const { return umem_->id(); }
  uint32_t sink_lkey() const { return sink_->View().lkey; }

  /// Describes where the memory is, how the NIC reaches it, and why.
  std::string Describe() const;

  FreeSpace& places() { return *places_; }  ///< places that a pool gives to endpoints

 private:
  void PlaceOnGpu(const Device& device, const QueueMemoryConfig& config, std::optional<size_t> sink_bytes);
  void PlaceOnHost(const Device& device, const QueueMemoryConfig& config, std::optional<size_t> sink_bytes);

  std::optional<GpuMemory> gpu_memory_;  // either this
  std::optional<HostPages> pages_;       // or this
  std::span<std::byte> bytes_;           // the registered part of it
  size_t start_ = 0;
  std::optional<GpuMapping> mapping_;
  RegistrationMethod method_ = RegistrationMethod::kHost;
  std::string why_;
  std::optional<MemoryRegion> sink_;
  std::optional<Umem> umem_;
  std::optional<FreeSpace> places_;
};

/// Host memory that is not registered with a NIC, mapped for the GPU if one is given. Whole pages, zeroed.
class HostChunk {
 public:
  /// @errors  Error
  HostChunk(const Gpu* gpu, size_t bytes);

  std::byte* data() const { return pages_.data(); }
  size_t size() const { return pages_.size(); }
  FreeSpace& places() { return places_; }  ///< places that a pool gives to endpoints

 private:
  HostPages pages_;
  std::optional<GpuMapping> mapping_;
  FreeSpace places_;
};

/// Allocates a HostChunk for one owner.
///
/// @errors  Error
std::shared_ptr<std::byte> OwnHostMemory(const Gpu* gpu, size_t bytes);

/// Takes a place in a chunk; null: no room. The last pointer to the place frees it, and keeps the chunk alive
/// until then.
template <class Chunk>
std::shared_ptr<std::byte> TakePlace(const std::shared_ptr<Chunk>& chunk, size_t bytes) {
  const std::optional<size_t> offset = chunk->places().Take(bytes);
  if (!offset) return nullptr;
  return {chunk->data() + *offset, [chunk, at = *offset](std::byte*) { chunk->places().Give(at); }};
}

}  // namespace warpverbs::inline v0_2::host
