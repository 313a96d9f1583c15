// Memory for data, registered with a NIC: on the GPU whose kernels use it, or on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/memory.hpp"

/// Zeroed memory that the NIC and one processor's kernels reach.
struct RegisteredBuffer {
  /// @param gpu        GPU whose kernels use the memory; empty: threads of the CPU use it
  /// @param placement  kProbe takes the GPU's memory if the NIC reaches it, otherwise the host's
  /// @errors  host::Error: no memory of the demanded placement can be allocated or registered
  static RegisteredBuffer Allocate(const warpverbs::host::Device& device,
                                   const std::optional<warpverbs::host::Gpu>& gpu,
                                   warpverbs::host::Placement placement, size_t bytes,
                                   const warpverbs::host::Access& access) {
    using warpverbs::host::Placement;
    const auto allocate = [&](const warpverbs::host::MemoryKind& kind) {
      auto buffer = kind.Allocate(bytes);
      auto registration = buffer->Register(device, access);
      return RegisteredBuffer{std::move(buffer), std::move(registration)};
    };
    if (!gpu) return allocate(warpverbs::host::HostMemoryKind());
    if (placement != Placement::kHost) {
      try {
        return allocate(warpverbs::host::CudaMemoryKind(*gpu));
      } catch (const warpverbs::host::Error&) {
        if (placement == Placement::kGpu) throw;
      }
    }
    return allocate(warpverbs::host::PinnedMemoryKind(*gpu));
  }

  std::unique_ptr<warpverbs::host::Buffer> memory;
  warpverbs::host::MemoryRegion region;
};
