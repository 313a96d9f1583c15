// The memory of one side: allocated, registered, copied to and from, and worked on where it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "nic_copies.hpp"
#include "options.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/deadline.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/endpoint_config.hpp"

namespace rdma_demo {

/// Where memory shall lie, what else there is besides, and who may reach it.
struct MemoryOptions {
  std::string kind{};  ///< host, cuda[:N], hip[:N], gaudi[:PCI address]
  uint64_t bytes = 0;
  warpverbs::host::Access access{};
  warpverbs::host::EndpointConfig loop{};  ///< of the endpoints that copy where no driver does
  std::chrono::milliseconds patience{10'000};
};

/// Registered memory of any kind. The processor touches it only where it is the processor's own.
class Memory {
 public:
  /// @errors  host::Error: there is no such memory, or the NIC does not reach it
  Memory(const warpverbs::host::Device& device, const MemoryOptions& options);

  /// Takes the kind that is asked for; with auto, the first accelerator's that the NIC reaches, else the
  /// host's, and says why.
  static std::unique_ptr<Memory> Choose(const warpverbs::host::Device& device, MemoryOptions options,
                                        std::ostream& out);

  /// "memory of cuda:0"
  std::string name() const { return buffer_->name(); }
  warpverbs::host::MemoryView View() const { return region_->View(); }
  /// The file by which the NIC reaches it; -1: it goes by the address.
  int dma_buf() const { return file_ ? file_->fd() : -1; }

  void Write(uint64_t offset, std::span<const std::byte> from) const;
  void Read(uint64_t offset, std::span<std::byte> to) const;

  /// Doubles 4-byte integers of one part into another. Throws what says why it cannot.
  ///
  /// @param from, to, bytes  multiples of 4
  /// @param deadline         for a kernel on a GPU, which may be given up then
  void Double(uint64_t from, uint64_t to, uint64_t bytes, warpverbs::host::Deadline deadline) const;

  /// Who does that: "a kernel on cuda:0".
  const std::string& doubler() const { return doubler_; }

 private:
  void DoubleACopy(uint64_t from, uint64_t to, uint64_t bytes) const;
  void SeeWhatArrived() const;

  bool on_host_ = false;
  std::optional<int> kernels_on_;  // this CUDA GPU
  std::string doubler_;
  std::unique_ptr<warpverbs::host::Buffer> buffer_;
  std::optional<warpverbs::host::DmaBuf> file_;
  std::optional<warpverbs::host::MemoryRegion> region_;
  std::unique_ptr<NicCopies> nic_copies_;  // where no driver copies
};

}  // namespace rdma_demo
