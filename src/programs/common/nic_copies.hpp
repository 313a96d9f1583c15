#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "warpverbs/device/status.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::programs {

/// Copies by the NIC, for memory that the processor does not reach: one of two endpoints of a port reads and
/// writes the other's host memory. The memory is used by its lkey only, so no peer gains access.
class NicCopies {
 public:
  /// Throws the program's exception for the failure of a piece. It must not return.
  ///
  /// @param endpoint  posted the copy
  /// @param object    "4 bytes to the device"
  using Raise =
      std::function<void(const host::Endpoint& endpoint, const std::string& object, const device::Status&)>;

  /// @param config   settings of both endpoints
  /// @param memory   registered on the same device while this exists; the NIC may write it
  /// @param timeout  longest time for each piece of a copy
  /// @errors  Error
  NicCopies(const host::Device& device, const host::EndpointConfig& config, const host::MemoryView& memory,
            std::chrono::nanoseconds timeout, Raise raise);

  // @errors  the exception of `raise`: a piece failed, or was not copied in time
  void CopyIn(uint64_t offset, std::span<const std::byte> from);
  void CopyOut(uint64_t offset, std::span<std::byte> to);

 private:
  static constexpr size_t kPieceBytes = size_t{256} << 10;

  template <class Operation>
  void Perform(const std::string& object, const Operation& operation);

  host::MemoryView memory_;
  std::chrono::nanoseconds timeout_;
  Raise raise_;
  host::HostPages pages_;
  host::MemoryRegion region_;
  host::Endpoint poster_, owner_;  // poster_ posts; owner_ owns the host pages
};

}  // namespace warpverbs::programs
