#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/pointer_info.hpp"

namespace warpverbs::programs {
class NicCopies;
}

namespace warpverbs::perf {

/// The memory for messages, as the command line selects it.
struct MemoryChoice {
  enum class Kind : uint8_t { kDefault, kCuda, kRocm, kGaudi };

  Kind kind = Kind::kDefault;  ///< kDefault: host memory; for kernels the placement decides
  int ordinal = 0;             ///< GPU ordinal
  std::string pci_address{};  ///< PCI address of the GPU or the Gaudi; empty: the ordinal, or the first Gaudi
  bool dma_buf = false;       ///< registers by dma-buf only
  bool over_pcie = false;     ///< NICs reach GPU memory over PCIe: see host::Access
};

/// Returns the GPU with the PCI address or the ordinal of a choice.
///
/// @errors  Error: no GPU has it
host::Gpu FindGpu(const MemoryChoice& choice);

/// Distances that separate messages on both sides: the larger of the two sides' sizes.
struct Alignment {
  uint64_t page_bytes = 4096, line_bytes = 64;
};

/// The arrangement of a flow's messages in its part of the memory.
struct Layout {
  uint64_t bytes = 0;   ///< size of a message
  uint64_t stride = 0;  ///< distance between neighbouring slots
  uint32_t slots = 1;

  uint64_t span() const { return stride * slots; }
};

/// Returns a layout of one page: as many slots as fit, at least a cache line apart. A message that fills more
/// than half of a page gets a single slot.
Layout PageLayout(uint64_t bytes, const Alignment& alignment = {});

/// Returns a layout with a slot for each of `messages`, limited by `max_bytes`.
Layout RoomyLayout(uint64_t bytes, uint64_t messages, uint64_t max_bytes, const Alignment& alignment = {});

/// The message memory of one side. Each flow has a source part and a target part, which the peer accesses.
class FlowMemory {
 public:
  /// @param gpu   the GPU whose kernels post; nullptr: CPU threads post
  /// @param span  size of each part in bytes
  /// @errors  Error: the memory cannot be allocated or registered
  FlowMemory(const host::Device& device, const MemoryChoice& choice, const host::Gpu* gpu,
             host::Placement placement, uint32_t flows, uint64_t span, const host::Access& access);
  ~FlowMemory();

  /// Opens the device of a choice, and closes it.
  ///
  /// @errors  Error: it does not exist, or its driver fails
  static void CheckDevice(const MemoryChoice& choice);

  /// Lets the NIC do the copies below: the processor does not reach a Gaudi's memory.
  ///
  /// @param config   settings of two more endpoints on the device of the constructor
  /// @param timeout  for each piece of a copy
  /// @errors  Error
  void CopyByNic(const host::Device& device, const host::EndpointConfig& config,
                 std::chrono::nanoseconds timeout);

  enum class Part : uint8_t { kSource, kTarget };
  host::MemoryView ViewOf(uint32_t flow, Part part) const;

  /// Copies into or out of a flow's part, from an offset on. @errors as Buffer
  void CopyIn(uint32_t flow, Part part, uint64_t offset, std::span<const std::byte> from) const;
  void CopyOut(uint32_t flow, Part part, uint64_t offset, std::span<std::byte> to) const;

  /// "memory of cuda:0; registration: GPU memory by dma-buf"
  std::string Describe() const;
  /// Returns whether this is memory of an NVIDIA GPU.
  bool on_gpu() const { return host::DescribePointer(buffer_->data()).on_gpu(); }
  std::string kind() const { return buffer_->name(); }
  std::string method() const { return ToString(region_->method()); }

 private:
  uint64_t OffsetOf(uint32_t flow, Part part) const;

  uint64_t span_;
  std::unique_ptr<host::Buffer> buffer_;
  std::optional<host::MemoryRegion> region_;
  std::unique_ptr<programs::NicCopies> nic_copies_;
};

}  // namespace warpverbs::perf
