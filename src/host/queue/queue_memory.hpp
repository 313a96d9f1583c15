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
  size_t sink = 0;           ///< the offset of 8 bytes that work requests may name
  const Gpu* gpu = nullptr;  ///< that posts; nullptr: threads of the CPU
  Placement placement = Placement::kProbe;
  const char* host_only = nullptr;  ///< why it must be host memory; nullptr: it need not
  bool over_pcie = false;           ///< see Access; GPU memory only
};

class QueueChunk;  // the library's own
class QueuePool;

/// The memory that a NIC and its posters share: queues, completions, doorbell records and control words.
///
/// The host reaches it by these calls, wherever it lies. Zeroed; whole pages, or a piece of a pool's.
class QueueMemory {
 public:
  /// Takes the first that works: GPU memory by dma-buf, GPU memory by its address, host memory.
  ///
  /// @param pool  whose chunks it is taken from; nullptr: pages of its own
  /// @errors  Error: says of each way that was to be tried why it failed
  QueueMemory(const Device& device, const QueueMemoryConfig& config, QueuePool* pool = nullptr);

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool on_gpu() const;
  uint32_t umem_id() const;
  size_t umem_offset() const { return offset_; }  ///< offset of data() in the umem, in bytes
  uint32_t sink_lkey() const;

  /// Says in words where it lies, how the NIC reaches it, and why.
  std::string Describe() const;

  // Offsets are in bytes from the start.
  void Write(size_t offset, const void* from, size_t bytes);
  void Fill(size_t offset, size_t bytes, int value);
  void Store(size_t offset, uint64_t value);  ///< whole; at a multiple of 8
  uint64_t Load(size_t offset) const;         ///< whole; at a multiple of 8

  /// The bytes for the host to look at: themselves if it can, else as they are now.
  ///
  /// @param copy  where they are put if they must be; must outlive the result
  const std::byte* Look(size_t offset, size_t bytes, std::vector<std::byte>& copy) const;

 private:
  std::shared_ptr<QueueChunk> chunk_;
  std::shared_ptr<std::byte> place_;  // in a pool's chunk; null: all of the chunk is this one's
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t offset_ = 0;  // of data_ in the chunk
};

}  // namespace warpverbs::inline v0_2::host
