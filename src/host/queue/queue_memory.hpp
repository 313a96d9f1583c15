#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::inline v0_2::host {

struct QueueMemoryConfig {
  size_t bytes = 0;
  size_t sink = 0;           ///< offset of 8 bytes that work requests may name
  const Gpu* gpu = nullptr;  ///< GPU whose kernels post; nullptr: CPU threads post
  Placement placement = Placement::kProbe;
  const char* host_only = nullptr;  ///< reason why it must be host memory; nullptr: none
  bool over_pcie = false;           ///< see Access; GPU memory only
  size_t alignment = 0;             ///< alignment of the first byte, a power of two; 0: a page
};

class QueueChunk;
class QueuePool;

/// The memory that a NIC and its posters share: queues, completions, doorbell records and control words.
///
/// The calls below reach it in host and GPU memory. Zeroed; whole pages, or a place in a pool's chunk.
class QueueMemory {
 public:
  /// Takes the first that works: GPU memory by dma-buf, GPU memory by its address, host memory.
  ///
  /// @param pool  pool to take the memory from; nullptr: dedicated pages
  /// @errors  Error: names the reason why each attempt failed
  QueueMemory(const Device& device, const QueueMemoryConfig& config, QueuePool* pool = nullptr);

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool on_gpu() const;
  uint32_t umem_id() const;
  size_t umem_offset() const { return offset_; }  ///< offset of data() in the umem, in bytes
  uint32_t sink_lkey() const;

  /// Describes where the memory is, how the NIC reaches it, and why.
  std::string Describe() const;

  // Offsets are in bytes from the start.
  void Write(size_t offset, const void* from, size_t bytes);
  void Fill(size_t offset, size_t bytes, int value);
  void Store(size_t offset, uint64_t value);  ///< stored whole; the offset is a multiple of 8
  uint64_t Load(size_t offset) const;         ///< loaded whole; the offset is a multiple of 8

  /// Returns bytes that the host can read: in place in host memory, or else a copy.
  ///
  /// @param copy  buffer for the copy; must outlive the result
  const std::byte* Read(size_t offset, size_t bytes, std::vector<std::byte>& copy) const;

 private:
  std::shared_ptr<QueueChunk> chunk_;
  std::shared_ptr<std::byte> place_;  // place in a pool's chunk; null: owns the whole chunk
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t offset_ = 0;  // offset of data_ in the chunk
};

}  // namespace warpverbs::inline v0_2::host
