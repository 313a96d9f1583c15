// Copies by the NIC, for memory that the processor cannot reach.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

namespace rdma_demo {

/// Two endpoints of one port. One reads and writes the other's host memory, with the device's memory as its
/// local side. The device's memory is used by its lkey only, so no peer gains access.
class NicCopies {
 public:
  /// @param config   configuration of both endpoints
  /// @param memory   memory registered on the same device, while this exists
  /// @param timeout  longest time for each piece of a copy
  NicCopies(const warpverbs::host::Device& device, const warpverbs::host::EndpointConfig& config,
            const warpverbs::host::MemoryView& memory, std::chrono::milliseconds timeout);

  /// Copies to or from the memory. Throws OperationFailed.
  void CopyIn(uint64_t offset, std::span<const std::byte> from);
  void CopyOut(uint64_t offset, std::span<std::byte> to);

 private:
  static constexpr size_t kPieceBytes = size_t{256} << 10;

  warpverbs::host::MemoryView memory_;
  std::chrono::milliseconds timeout_;
  warpverbs::host::HostPages pages_;
  warpverbs::host::MemoryRegion region_;
  warpverbs::host::Endpoint poster_, owner_;  // poster_ posts; owner_ owns the host pages
};

}  // namespace rdma_demo
