#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/pointer_info.hpp"

namespace warpverbs::perf {

/// Where messages lie, as the command line says it.
struct MemoryChoice {
  enum class Kind : uint8_t { kDefault, kCuda, kRocm, kGaudi };

  Kind kind = Kind::kDefault;  ///< kDefault: the host's, or with kernels as the placement says
  int ordinal = 0;             ///< of a GPU
  std::string pci_address{};   ///< of the GPU or the Gaudi; empty: by the ordinal, or the first
  bool dma_buf = false;        ///< registered by dma-buf, or not at all
};

/// The GPU that has a PCI address, or an ordinal.
///
/// @errors  Error: there is none
host::Gpu FindGpu(const MemoryChoice& choice);

/// What lies apart by these does so on both sides: the larger of theirs.
struct Grain {
  uint64_t page_bytes = 4096, line_bytes = 64;
};

/// How the messages of a flow lie in its part of the memory.
struct Layout {
  uint64_t bytes = 0;   ///< of a message
  uint64_t stride = 0;  ///< from place to place
  uint32_t slots = 1;

  uint64_t span() const { return stride * slots; }
};

/// Places of a page: as many messages as fit, a cache line apart at least; a longer one has a place to
/// itself.
Layout PageLayout(uint64_t bytes, const Grain& grain = {});

/// Places of their own for so many messages, as far as the memory goes.
Layout RoomyLayout(uint64_t bytes, uint64_t messages, uint64_t most_bytes, const Grain& grain = {});

/// The memory of all flows of one side: for each a part to send from and a part that the peer reaches.
class FlowMemory {
 public:
  /// @param gpu        whose kernels post; nullptr: threads of the processor
  /// @param span       of each part, in bytes
  /// @errors  Error: no such memory, or the NIC does not reach it
  FlowMemory(const host::Device& device, const MemoryChoice& choice, const host::Gpu* gpu,
             host::Placement placement, uint32_t flows, uint64_t span, const host::Access& access);

  enum class Part : uint8_t { kSource, kTarget };
  host::MemoryView ViewOf(uint32_t flow, Part part) const;

  /// Offsets are from the start of a flow's part. @errors as Buffer
  void CopyIn(uint32_t flow, Part part, uint64_t offset, std::span<const std::byte> from) const;
  void CopyOut(uint32_t flow, Part part, uint64_t offset, std::span<std::byte> to) const;

  /// "memory of cuda:0; registration: GPU memory by dma-buf"
  std::string Describe() const;
  /// Whether it is an NVIDIA GPU's.
  bool on_gpu() const { return host::DescribePointer(buffer_->data()).on_gpu(); }
  std::string kind() const { return buffer_->name(); }
  std::string method() const { return ToString(region_->method()); }

 private:
  uint64_t OffsetOf(uint32_t flow, Part part) const;

  uint64_t span_;
  std::unique_ptr<host::Buffer> buffer_;
  std::optional<host::MemoryRegion> region_;
};

}  // namespace warpverbs::perf
