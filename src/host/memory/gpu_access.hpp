#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/pointer_info.hpp"

namespace warpverbs::inline v0_2::host {

inline constexpr char kPeerMemoryRemedy[] =
    "Load nvidia_peermem (modprobe nvidia_peermem), or use NVIDIA's open kernel modules on Linux 5.12 or "
    "later, which export dma-bufs";

inline constexpr char kPcieRemedy[] =
    "Use NVIDIA's driver 570 or later with its open kernel modules, or do not ask for a mapping over PCIe";

inline constexpr char kPeerDirectRemedy[] =
    "Use Linux 5.12 or later with CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY, whose amdgpu exports "
    "dma-bufs, or ROCm's amdgpu-dkms with MLNX_OFED, which have peer-direct";

/// Two ways to let a NIC reach the same GPU memory. Each throws Error if it does not work.
struct GpuRegistration {
  std::function<void(const DmaBuf&)> by_dma_buf;
  std::function<void()> by_address;  ///< way of nvidia_peermem and of AMD's peer-direct
  bool over_pcie = false;            ///< whether to map the dma-buf over PCIe, see Access
  PointerInfo pointer{};             ///< driver's description, if other code allocated the memory
};

/// Registers the memory by the first way that works.
///
/// @param object  name of the memory in an error
/// @errors  Error: names the reason of each way
RegistrationMethod RegisterGpuMemory(const GpuRegistration& registration, const Gpu& gpu, void* memory,
                                     size_t bytes, const std::string& object);

/// Does the same for memory of the AMD GPU that registration.pointer names.
RegistrationMethod RegisterHipMemory(const GpuRegistration& registration, void* memory, size_t bytes,
                                     const std::string& object);

}  // namespace warpverbs::inline v0_2::host
