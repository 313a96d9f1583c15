#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "gpuio/control/messages.hpp"
#include "gpuio/control/names.hpp"
#include "gpuio/daemon/file_store.hpp"
#include "gpuio/daemon/guarded_mapping.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/shared_memory.hpp"
#include "warpverbs/transport/memory.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The device that buffers in the host's memory are registered on, as RdmaTransport's, and those of GPUs
/// without nearer NICs.
struct RegistrationDevice {
  int device = 0;
  uint32_t max_nics = 1;
};

/// Memory of an application that servers reach.
struct RegisteredMemory {
  std::shared_ptr<GuardedMapping> mapping{};  ///< null: memory of a GPU
  std::unique_ptr<host::Buffer> buffer{};     ///< never null; memory of a GPU is opened here, or a dma-buf
  std::optional<transport::RdmaMemory> registration{};  ///< goes before the memory

  /// What opens the memory for copies, if `buffer` is a dma-buf that this process cannot map: most drivers'
  /// cannot be.
  std::optional<host::SharedMemoryInfo> by_ipc{};
  std::unique_ptr<host::Buffer> opened_by_ipc{};
  bool cannot_be_filled = false;  ///< no driver lets this process fill it: servers send zeros
};

/// What an application has published of a GPU's memory.
struct PublishedMemory {
  host::SharedMemory memory;
  std::optional<std::array<uint8_t, host::SharedMemoryInfo::kHandleBytes>> ipc_handle{};
  uint64_t ipc_offset = 0;
};

/// An iov, as long as an I/O may use it.
class AttachedBuffer {
 public:
  /// @param offset  of the iov in the memory
  AttachedBuffer(std::shared_ptr<RegisteredMemory> memory, uint64_t offset, uint64_t bytes,
                 uint64_t block_bytes)
      : memory_(std::move(memory)), offset_(offset), bytes_(bytes), block_bytes_(block_bytes) {}

  AttachedBuffer(const AttachedBuffer&) = delete;
  AttachedBuffer& operator=(const AttachedBuffer&) = delete;

  /// Says whether a range is within the iov, and within one of its blocks. None is, if the application has
  /// truncated its file.
  bool Contains(uint64_t offset, uint64_t bytes) const;

  /// @pre  Contains() the range
  RegisteredRange Remote(uint64_t offset, uint64_t bytes) const;

  /// Sets a range to zero: by the GPU if the memory is a GPU's, and its driver lets this process open it.
  ///
  /// @return  false: it does not, nor for any other range
  /// @pre  Contains() the range
  bool FillWithZeros(uint64_t offset, uint64_t bytes) const;
  bool CanBeFilled() const { return !memory_->cannot_be_filled; }

  const std::shared_ptr<RegisteredMemory>& memory() const { return memory_; }
  uint64_t offset() const { return offset_; }
  uint64_t bytes() const { return bytes_; }
  bool is_gpu() const { return memory_->mapping == nullptr; }

  /// What other processes open the memory by, and where the iov is in that.
  std::optional<std::array<uint8_t, host::SharedMemoryInfo::kHandleBytes>> ipc_handle{};
  uint64_t ipc_offset = 0;
  std::shared_ptr<const AttachedBuffer> part_of{};  ///< buffer with which the memory goes; null: this one

  /// Describes the memory in the application that has published it. Memory of one allocation has one id.
  std::optional<host::SharedMemoryInfo> published{};

 private:
  std::shared_ptr<RegisteredMemory> memory_;
  uint64_t offset_, bytes_, block_bytes_;
};

/// Opens a file of /dev/shm that an application has.
///
/// @param owner  user who must own it; 0: any
/// @param error  0 or an errno value: EINVAL: the target is not a file of /dev/shm; EACCES: it is
///               another user's
std::unique_ptr<GuardedMapping> MapShmFile(const std::string& target, uid_t owner, int& error);

/// Registers memory of the host.
///
/// @param error  0 or an errno value: ENOMEM: it cannot be registered
std::shared_ptr<AttachedBuffer> AttachHostMemory(std::shared_ptr<GuardedMapping> mapping,
                                                 uint64_t block_bytes, const RegistrationDevice& device,
                                                 int& error);

/// Opens and registers memory of a GPU, on the NICs that are nearest to it.
///
/// @param error  0 or an errno value: ENOMEM: keys or memory have run out; ENOTSUP: no NIC reaches it
std::shared_ptr<AttachedBuffer> AttachGpuMemory(const PublishedMemory& published,
                                                const RegistrationDevice& device, int& error);

}  // namespace warpverbs::inline v0_2::gpuio
