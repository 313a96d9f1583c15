#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/handle.hpp"
#include "warpverbs/host/memory_view.hpp"

namespace warpverbs::host {

/// How a NIC reaches memory.
enum class RegistrationMethod : uint8_t {
  kHost,        ///< host memory, which the kernel pins
  kDmaBuf,      ///< GPU memory, which its driver exports
  kPeerMemory,  ///< GPU memory by its address: the kernel has nvidia_peermem, or peer-direct of AMD
};
const char* ToString(RegistrationMethod method);

class DmaBuf;
struct PointerInfo;

/// Memory that the NIC may reach. The memory stays the caller's and must outlive the region.
class MemoryRegion {
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

  Handle<ibv_mr, ibv_dereg_mr> region_;
  void* memory_;
  size_t bytes_;
  Access access_;
  RegistrationMethod method_ = RegistrationMethod::kHost;
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
