#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/pointer_info.hpp"

namespace warpverbs::host {

inline constexpr char kPeerMemoryRemedy[] =
    "Load nvidia_peermem (modprobe nvidia_peermem), or use NVIDIA's open kernel modules on Linux 5.12 or "
    "later, which export dma-bufs";

inline constexpr char kPcieRemedy[] =
    "Use NVIDIA's driver 570 or later with its open kernel modules, or ask for no way over PCIe";

inline constexpr char kPeerDirectRemedy[] =
    "Use Linux 5.12 or later with CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY, whose amdgpu exports "
    "dma-bufs, or ROCm's amdgpu-dkms with MLNX_OFED, which have peer-direct";

/// Two ways to let a NIC reach the same memory of a GPU. Each throws Error if it does not work.
struct GpuLadder {
  std::function<void(const DmaBuf&)> by_dma_buf;
  std::function<void()> by_address;  ///< for nvidia_peermem, or peer-direct of AMD
  bool over_pcie = false;            ///< the dma-buf: see Access
  PointerInfo what{};                ///< of memory that somebody else has allocated, what the driver says
};

/// Goes the first way that works.
///
/// @param object  what the error calls it
/// @errors  Error: has the reason of each way
RegistrationMethod Climb(const GpuLadder& ladder, const Gpu& gpu, void* memory, size_t bytes,
                         const std::string& object);

/// The same for memory of an AMD GPU, which ladder.what names.
RegistrationMethod ClimbHip(const GpuLadder& ladder, void* memory, size_t bytes, const std::string& object);

}  // namespace warpverbs::host
