#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// Which writes a flush makes visible, and to which side.
enum class FlushDirection : int {
  kGpuToNic = 0,  ///< writes of kernels, to NICs
  kNicToGpu = 1,  ///< writes of NICs, to kernels
};

/// Memory of any kind that a NIC may reach. The destructor releases it.
///
/// Code that only moves data needs nothing beyond this interface.
class WARPVERBS_EXPORT Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// What it is, for messages: "host memory", "memory of cuda:0".
  virtual std::string name() const = 0;

  /// Where kernels, NICs and their peers see it. The processor may not: some memory has no address for it.
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  /// Copies between it and the processor's memory; what was copied is there when the call returns.
  ///
  /// @errors  std::out_of_range: the place is outside; Error: the driver fails, or cannot copy
  void CopyIn(size_t offset, std::span<const std::byte> from) const;
  void CopyOut(size_t offset, std::span<std::byte> to) const;

  /// Copies bytes of it to another buffer, or to another place of its own; they are there when the call
  /// returns.
  ///
  /// Memory of one driver is copied by that, between its GPUs too. What no driver copies at once goes
  /// through the processor's memory, kPieceBytes at a time. Ranges that overlap are copied as by memmove();
  /// that they do is known by their addresses, so not of one memory that has two.
  ///
  /// @errors  as CopyIn() and CopyOut(); a place outside is found before anything is copied
  void CopyTo(size_t offset, const Buffer& to, size_t to_offset, size_t bytes) const;
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  /// Sets bytes of it to a value; they have it when the call returns. Memory of an NVIDIA GPU is set by the GPU.
  ///
  /// @errors  as CopyIn()
  void Fill(size_t offset, size_t bytes, std::byte value) const;

  /// Exports all of it as a file, for devices that cannot reach it by an address of the processor.
  ///
  /// @errors  Error: this memory is none that is exported, or its driver refuses
  virtual DmaBuf Export() const;

  /// Lets a NIC reach all of it.
  ///
  /// @errors  Error, as MemoryRegion
  virtual MemoryRegion Register(const Device& device, const Access& access = {}) const;

  /// Makes what one side has written visible to the other.
  ///
  /// kGpuToNic, before a write or send is posted by the host: waits, asleep, for what was launched on
  /// `stream` until now. kNicToGpu, after a completion was seen: what is launched on `stream` from now on
  /// sees what the NIC had written. Kernels that post and poll by themselves need neither. Where GPU and NIC
  /// see each other's writes anyway it does nothing.
  ///
  /// Without a stream, kGpuToNic waits for all streams of an NVIDIA GPU, which needs CUDA 12.5; of one of AMD
  /// for the null stream and all that it waits for, so not for streams that are non-blocking: pass those.
  ///
  /// @param deadline  of the wait for kernels; one that has passed: do not wait
  /// @param stream    of the memory's GPU, as its runtime has it (cudaStream_t, hipStream_t); nullptr: all
  ///                  that runs there
  /// @errors  Error: the deadline passed (ETIMEDOUT); the direction is invalid (EINVAL); the driver cannot
  ///          do it (EOPNOTSUPP) or fails
  void Flush(FlushDirection direction, Deadline deadline, void* stream = nullptr) const;

 protected:
  Buffer(std::byte* data, size_t size) : data_(data), size_(size) {}

  // What is copied lies within, and is not empty.
  virtual void DoCopyIn(size_t offset, std::span<const std::byte> from) const = 0;
  virtual void DoCopyOut(size_t offset, std::span<std::byte> to) const = 0;

  // Copies what does not overlap, if one driver has both. By default: none has.
  virtual bool DoCopyTo(size_t offset, const Buffer& to, size_t to_offset, size_t bytes) const;

  // Sets what lies within, and is not empty. By default: copies the value in.
  virtual void DoFill(size_t offset, size_t bytes, std::byte value) const;

  // Where the processor reaches it; nullptr: by copies alone.
  virtual std::byte* on_host() const { return nullptr; }

  // One of the two directions. By default: nobody can.
  virtual void DoFlush(FlushDirection direction, Deadline deadline, void* stream) const;

 private:
  void Check(size_t offset, size_t bytes) const;
  void CopyPieces(size_t offset, const Buffer& to, size_t to_offset, size_t bytes) const;

  std::byte* data_;
  size_t size_;
};

/// A kind of memory that can be allocated.
class MemoryKind {
 public:
  virtual ~MemoryKind() = default;

  virtual std::string name() const = 0;

  /// @return  at least so many bytes, zeroed where the memory can be written at all
  /// @errors  Error: out of memory, or 0 bytes
  virtual std::unique_ptr<Buffer> Allocate(size_t bytes) const = 0;
};

/// Pages of the host.
class WARPVERBS_EXPORT HostMemoryKind final : public MemoryKind {
 public:
  std::string name() const override { return "host memory"; }
  std::unique_ptr<Buffer> Allocate(size_t bytes) const override;
};

/// Pages of the host that kernels of all GPUs reach at the same address.
class WARPVERBS_EXPORT PinnedMemoryKind final : public MemoryKind {
 public:
  explicit PinnedMemoryKind(const Gpu& gpu) : gpu_(gpu) {}
  std::string name() const override { return "host memory mapped for " + gpu_.name(); }
  std::unique_ptr<Buffer> Allocate(size_t bytes) const override;

 private:
  Gpu gpu_;
};

/// Memory of an NVIDIA GPU, in whole pages of 64 KiB. An integrated GPU has none but the host's: that is
/// mapped for it.
class WARPVERBS_EXPORT CudaMemoryKind final : public MemoryKind {
 public:
  explicit CudaMemoryKind(const Gpu& gpu) : gpu_(gpu) {}
  std::string name() const override { return "memory of " + gpu_.name(); }
  std::unique_ptr<Buffer> Allocate(size_t bytes) const override;

 private:
  Gpu gpu_;
};

/// Memory that somebody else has allocated, a framework for one, by its address.
///
/// @pre  it outlives what comes back; memory of a GPU belongs to one allocation
/// @errors  Error: nobody's memory, or 0 bytes
WARPVERBS_EXPORT std::unique_ptr<Buffer> WrapPointer(void* memory, size_t bytes);

/// Memory of which nothing but a file is known.
///
/// The processor copies to and from it where the file can be mapped, which that of a GPU cannot.
///
/// @param memory  where the part begins, as `file` counts
/// @errors  Error: the file has not all of it
WARPVERBS_EXPORT std::unique_ptr<Buffer> WrapDmaBuf(DmaBuf file, void* memory, size_t bytes);

}  // namespace warpverbs::inline v0_2::host
