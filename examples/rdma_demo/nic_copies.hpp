// Copies to and from memory that the processor has no way to, by the NIC.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

namespace rdma_demo {

/// Two endpoints of one port, of which one reads and writes the other's host memory. What lies in the
/// device's memory is named by its lkey only, so no peer gets a right by this.
class NicCopies {
 public:
  /// @param config    of the endpoints; retries and what the peer may do are chosen here
  /// @param memory    registered on the same device; must stay so
  /// @param patience  for each piece of a copy
  NicCopies(const warpverbs::host::Device& device, const warpverbs::host::EndpointConfig& config,
            const warpverbs::host::MemoryView& memory, std::chrono::milliseconds patience);

  /// Throws OperationFailed.
  void In(uint64_t offset, std::span<const std::byte> from);
  void Out(uint64_t offset, std::span<std::byte> to);

 private:
  static constexpr size_t kPieceBytes = size_t{256} << 10;

  warpverbs::host::MemoryView memory_;
  std::chrono::milliseconds patience_;
  warpverbs::host::HostPages pages_;
  warpverbs::host::MemoryRegion region_;
  warpverbs::host::Endpoint poster_, owner_;  // the owner of the pages
};

}  // namespace rdma_demo
