// The memory of one side: allocation, registration, copies, and the doubling of its integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/nic_copies.hpp"
#include "options.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/exchange.hpp"

namespace rdma_demo {

/// The configuration of a Memory.
struct MemoryConfig {
  std::string kind{};  ///< host, cuda[:N], hip[:N], gaudi[:PCI address]
  uint64_t bytes = 0;
  warpverbs::host::Access access{};
  warpverbs::host::EndpointConfig loop{};  ///< configuration of the endpoints of NicCopies
  std::chrono::milliseconds timeout{10'000};
};

/// Registered memory of any kind. The processor touches only host memory.
class Memory {
 public:
  /// @errors  host::Error: the memory cannot be allocated, or the NIC does not reach it
  Memory(const warpverbs::host::Device& device, const MemoryConfig& config);

  /// Allocates the configured kind. With auto, takes the first accelerator that the NIC reaches, otherwise
  /// host memory, and prints the reasons.
  static std::unique_ptr<Memory> Choose(const warpverbs::host::Device& device, MemoryConfig config,
                                        std::ostream& out);

  /// "memory of cuda:0"
  std::string name() const { return buffer_->name(); }
  warpverbs::host::MemoryView View() const { return region_->View(); }
  /// Returns the file descriptor by which the NIC reaches it; -1: the NIC uses the address.
  int dma_buf() const { return file_ ? file_->fd() : -1; }

  void Write(uint64_t offset, std::span<const std::byte> from) const;
  void Read(uint64_t offset, std::span<std::byte> to) const;

  /// Doubles 4-byte integers of one part into another.
  ///
  /// @param from, to, bytes  multiples of 4
  /// @param deadline         end of the wait for a kernel on a GPU, which may still run then
  /// @errors  host::Error, std::runtime_error
  void Double(uint64_t from, uint64_t to, uint64_t bytes, warpverbs::host::Deadline deadline) const;

  /// Returns the processor that doubles: "a kernel on cuda:0".
  const std::string& doubler() const { return doubler_; }

 private:
  void DoubleOnHost(uint64_t from, uint64_t to, uint64_t bytes) const;
  void FlushArrivals() const;

  bool on_host_ = false;
  std::optional<int> kernel_gpu_;  // CUDA GPU that doubles; empty: no GPU does
  std::string doubler_;
  std::unique_ptr<warpverbs::host::Buffer> buffer_;
  std::optional<warpverbs::host::DmaBuf> file_;
  std::optional<warpverbs::host::MemoryRegion> region_;
  std::unique_ptr<warpverbs::programs::NicCopies> nic_copies_;  // for memory that no driver copies
};

}  // namespace rdma_demo
