#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "warpverbs/device/memory.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/version.hpp"

struct ibv_mr;

namespace warpverbs::inline v0_2::host {

/// Rights to a memory region, besides reads by the local NIC. Grant only what is needed.
struct Access {
  bool local_write = true;  ///< the local NIC's receives, reads, fetched values. Implied by remote writes
  bool remote_read = false;
  bool remote_write = false;
  bool remote_atomic = false;  ///< where the device has atomics; a region's View() says whether it does

  /// Lets writes of NICs to the memory pass each other on their way, which some processors carry faster.
  ///
  /// Do not put flags, signals or atomics into such a region, nor data that a flag announces: the flag may
  /// arrive first. A hint: devices and kernels without it keep the order.
  /// @source  rdma-core v44, libibverbs/man/ibv_reg_mr.3, IBV_ACCESS_RELAXED_ORDERING
  bool relaxed_ordering = false;

  /// Lets NICs reach memory of an NVIDIA GPU over PCIe, by its BAR1, where the driver would choose another
  /// way: through the processor that the GPU is coherent with, as of Grace Hopper.
  ///
  /// For a NIC that shares a PCIe switch with the GPU. Writes by the two ways are not ordered: set it for the
  /// data and for the queues (EndpointConfig::over_pcie), or a completion may be seen before its data.
  /// Has an effect on dma-bufs only.
  /// @source  CUDA driver API 12.8, cuMemGetHandleForAddressRange(), cuFlushGPUDirectRDMAWrites()
  bool over_pcie = false;

  /// Whether the local NIC may write: the verbs refuse remote writes and atomics where it may not.
  bool nic_writes() const { return local_write || remote_write || remote_atomic; }
};

/// Part of a memory region: what a work request or a peer needs to name it.
///
/// A part is never larger than its whole. An empty part may be anywhere inside it, or at its end. A call that
/// throws std::out_of_range leaves the view as it was.
struct WARPVERBS_EXPORT MemoryView {
  uint64_t addr = 0;
  uint64_t bytes = 0;
  uint32_t lkey = 0;  ///< for work requests of this side
  uint32_t rkey = 0;  ///< for work requests of the peer
  Access access{};    ///< rights that the region grants

  // What Advance(), Subtract() and the Take calls have cut off, in bytes, for Reset().
  uint64_t cut_before = 0;
  uint64_t cut_behind = 0;

  /// What operations of kernels take, with the keys in wire order.
  device::LocalMemory Local() const { return {addr, bytes, mlx5::ToBe32(lkey)}; }
  device::RemoteMemory Remote() const { return {addr, mlx5::ToBe32(rkey)}; }

  /// Whether all of a range is within the view.
  bool Contains(uint64_t address, uint64_t range_bytes) const;
  bool Contains(const void* memory, uint64_t range_bytes) const {
    return Contains(reinterpret_cast<uint64_t>(memory), range_bytes);
  }

  /// Part of this part: by its offset, by its address, or from either end. Its Reset() makes it whole, no
  /// more.
  ///
  /// @errors  std::out_of_range: outside the view
  MemoryView Subrange(uint64_t offset, uint64_t part_bytes) const;
  MemoryView SubrangeAt(const void* memory, uint64_t part_bytes) const;
  MemoryView First(uint64_t part_bytes) const { return Subrange(0, part_bytes); }
  MemoryView Last(uint64_t part_bytes) const;

  /// Cuts bytes off the beginning or the end.
  ///
  /// @errors  std::out_of_range: more than the view has
  void Advance(uint64_t cut_bytes);
  void Subtract(uint64_t cut_bytes);

  /// Cuts bytes off the beginning or the end, and gives them.
  ///
  /// @errors  std::out_of_range: more than the view has
  MemoryView TakeFirst(uint64_t part_bytes);
  MemoryView TakeLast(uint64_t part_bytes);

  /// Takes back all that was cut off.
  void Reset();
};

/// How a NIC reaches memory.
enum class RegistrationMethod : uint8_t {
  kHost,        ///< host memory, which the kernel pins
  kDmaBuf,      ///< GPU memory, which its driver exports
  kPeerMemory,  ///< GPU memory by its address: the kernel has nvidia_peermem, or peer-direct of AMD
};
WARPVERBS_EXPORT const char* ToString(RegistrationMethod method);

class DmaBuf;
struct PointerInfo;

/// Memory that the NIC may reach. The memory stays the caller's and must outlive the region.
class WARPVERBS_EXPORT MemoryRegion {
 public:
  /// Registers host memory, or memory of a GPU by the first way that works.
  ///
  /// @pre  memory of a GPU is one allocation's
  /// @errors  Error: says whose memory it is, of each way that was tried why it failed, and the limit on
  ///          locked memory; refuses managed memory, and relaxed ordering with atomics
  MemoryRegion(const Device& device, void* memory, size_t bytes, const Access& access = {});

  /// Registers memory that was exported, which no processor need reach.
  ///
  /// @param buffer  of at least this memory; may go when this returns
  /// @param memory  its address for the NIC and its peers, as `buffer` counts
  /// @errors  Error
  MemoryRegion(const Device& device, const DmaBuf& buffer, void* memory, size_t bytes, const Access& access);

  /// All of the region.
  MemoryView View() const;

  RegistrationMethod method() const { return method_; }

 private:
  void RegisterAs(const PointerInfo& what, const Device& device, const std::string& object);

  // Each answers an errno value; 0: it is registered.
  int RegisterByAddress(const Device& device);
  int RegisterByDmaBuf(const Device& device, const DmaBuf& buffer);

  struct Deregister {
    void operator()(ibv_mr* region) const;
  };

  std::unique_ptr<ibv_mr, Deregister> region_;
  void* memory_;
  size_t bytes_;
  Access access_;
  RegistrationMethod method_ = RegistrationMethod::kHost;
};

/// Gives pages back to the kernel.
struct WARPVERBS_EXPORT UnmapPages {
  size_t bytes = 0;
  void operator()(std::byte* pages) const;
};

/// Page-aligned, zeroed host memory in whole pages.
class WARPVERBS_EXPORT HostPages {
 public:
  /// @errors  Error: out of memory, or 0 bytes
  explicit HostPages(size_t bytes);

  std::byte* data() const { return pages_.get(); }
  size_t size() const { return pages_.get_deleter().bytes; }
  std::span<std::byte> bytes() const { return {data(), size()}; }

 private:
  std::unique_ptr<std::byte, UnmapPages> pages_;
};

}  // namespace warpverbs::inline v0_2::host
