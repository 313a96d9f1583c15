#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/handle.hpp"

namespace warpverbs::host {

/// Who may do what with a memory region, beside the local NIC reading it. Grant only what is needed.
struct Access {
  bool local_write = true;  ///< by the local NIC: receives, reads, fetched values. Implied by remote writes
  bool remote_read = false;
  bool remote_write = false;
  bool remote_atomic = false;  ///< where the device has atomics; a region's View() says whether it does

  /// Lets writes of NICs to the memory pass each other on their way, which some processors carry faster.
  ///
  /// A word that tells of other writes must not be in such a region, nor be told of by one: it may arrive
  /// before they do. So atomics exclude it. A wish: devices and kernels without it keep the order.
  /// @source  rdma-core v44, libibverbs/man/ibv_reg_mr.3, IBV_ACCESS_RELAXED_ORDERING
  bool relaxed_ordering = false;

  /// Whether the local NIC may write: the verbs refuse remote writes and atomics where it may not.
  bool nic_writes() const { return local_write || remote_write || remote_atomic; }
};

/// Part of a memory region: what a work request or a peer needs to name it.
struct MemoryView {
  uint64_t addr = 0;
  uint64_t bytes = 0;
  uint32_t lkey = 0;  ///< for work requests of this side
  uint32_t rkey = 0;  ///< for work requests of the peer
  Access access{};    ///< what the region grants

  /// Part of this part.
  ///
  /// @errors  std::out_of_range: it does not lie inside. Empty parts may lie at the end
  MemoryView Part(uint64_t offset, uint64_t part_bytes) const;
};

/// How a NIC reaches memory.
enum class MemoryRung : uint8_t {
  kHost,        ///< host memory, which the kernel pins
  kDmaBuf,      ///< GPU memory, which its driver exports
  kPeerMemory,  ///< GPU memory by its address: the kernel has nvidia_peermem
};
const char* ToString(MemoryRung rung);

class DmaBuf;

/// Memory that the NIC may reach. The memory stays the caller's and must outlive the region.
class MemoryRegion {
 public:
  /// Registers host memory, or memory of a GPU by the first way that works.
  ///
  /// @pre  memory of a GPU is one allocation's
  /// @errors  Error: says whose memory it is, of each way that was tried why it failed, and the limit on
  /// locked
  ///          memory; refuses managed memory, and relaxed ordering with atomics
  MemoryRegion(const Device& device, void* memory, size_t bytes, const Access& access = {});

  /// Registers memory that was exported, which no processor need reach.
  ///
  /// @param buffer  of at least this memory; may go when this returns
  /// @param memory  its address for the NIC and its peers, as `buffer` counts
  /// @errors  Error
  MemoryRegion(const Device& device, const DmaBuf& buffer, void* memory, size_t bytes, const Access& access);

  /// All of the region.
  MemoryView View() const;

  MemoryRung rung() const { return rung_; }

 private:
  // Each answers an errno value; 0: it is registered.
  int RegisterByAddress(const Device& device);
  int RegisterByDmaBuf(const Device& device, const DmaBuf& buffer);

  Handle<ibv_mr, ibv_dereg_mr> region_;
  void* memory_;
  size_t bytes_;
  Access access_;
  MemoryRung rung_ = MemoryRung::kHost;
};

/// Gives pages back to the kernel.
struct UnmapPages {
  size_t bytes = 0;
  void operator()(std::byte* pages) const;
};

/// Page-aligned, zeroed host memory in whole pages.
class HostPages {
 public:
  /// @errors  Error: out of memory, or 0 bytes
  explicit HostPages(size_t bytes);

  std::byte* data() const { return pages_.get(); }
  size_t size() const { return pages_.get_deleter().bytes; }
  std::span<std::byte> bytes() const { return {data(), size()}; }

 private:
  std::unique_ptr<std::byte, UnmapPages> pages_;
};

}  // namespace warpverbs::host
