#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// How another process gets at memory.
enum class ShareKind : uint8_t {
  kCudaIpc = 1,    ///< CUDA opens the description; NICs reach it through its own process only
  kDmaBuf = 2,     ///< a file that NICs reach; needs no CUDA
  kVmmHandle = 3,  ///< CUDA opens a file: memory of cuMemCreate()
};
WARPVERBS_EXPORT const char* ToString(ShareKind kind);

/// What another process of this machine needs to open memory; crosses as checked bytes.
struct WARPVERBS_EXPORT SharedMemoryInfo {
  static constexpr uint16_t kVersion = 1;
  static constexpr size_t kBytes = 160;
  static constexpr size_t kHandleBytes = 64;

  ShareKind kind = ShareKind::kCudaIpc;
  uint64_t bytes = 0;
  uint64_t offset = 0;                 ///< in the allocation, or the file: an inner pointer keeps its place
  uint64_t allocation_bytes = 0;       ///< or the file's
  uint64_t address = 0;                ///< in the process that shares it
  uint64_t buffer_id = 0;              ///< there
  uint64_t process = 0;                ///< differs between processes; see ThisProcess()
  std::array<char, 16> pci_address{};  ///< GPU: "0000:41:00.0"; empty: no known GPU
  std::array<uint8_t, kHandleBytes> handle{};  ///< the driver's, by IPC

  friend bool operator==(const SharedMemoryInfo&, const SharedMemoryInfo&) = default;

  /// @errors  Error: a field is out of range
  void Check() const;

  /// Magic, version, length, fields in network order, CRC-32.
  std::array<uint8_t, kBytes> ToBytes() const;

  /// @errors  Error: too short or too long, not of this library, of another version, damaged, or out of range
  static SharedMemoryInfo FromBytes(std::span<const uint8_t> bytes);

  /// A number that no other process has: none of this machine, and none that forks from this one.
  static uint64_t ThisProcess();
};

/// Memory on its way to another process. Unless it goes by IPC, its file has to go along.
struct SharedMemory {
  SharedMemoryInfo info;
  FileDescriptor file{};
};

/// Describes memory of cuMemAlloc(), which must stay allocated until all have closed it.
///
/// It is opened by another process only, and whole allocations are: the others of the same allocation see
/// all.
///
/// @errors  Error: it is no such memory, or not one allocation's
WARPVERBS_EXPORT SharedMemory ShareByIpc(const void* memory, size_t bytes);

/// Exports memory for processes that reach it by a NIC.
///
/// @errors  Error: its driver exports none
WARPVERBS_EXPORT SharedMemory ShareByDmaBuf(const Buffer& buffer);

/// Exports memory of cuMemCreate(), one mapping of it.
///
/// @errors  Error: it is none, lies in several mappings, or was made without the handle type of a POSIX file
WARPVERBS_EXPORT SharedMemory ShareByHandle(const void* memory, size_t bytes);

/// Exports memory of a GPU the first of these ways that works: by dma-buf, by its handle, by IPC.
///
/// @errors  Error: has the reason of each way
WARPVERBS_EXPORT SharedMemory Share(void* memory, size_t bytes);

/// Opens what another process shares.
///
/// In the process that shares it, the memory itself comes back, as long as it is allocated. What came by IPC
/// can be copied to and from and kernels reach it, but it is for the process that shares it to register it.
///
/// Believes no number of the description: memory of this process must have been shared by it, as exactly
/// this range, and memory of another process must lie in what the driver has opened.
///
/// @param shared  its file is closed in any case; memory by dma-buf has the address that it has over there
/// @errors  Error: the GPU is not here, the driver refuses, or the description promises more than was shared
WARPVERBS_EXPORT std::unique_ptr<Buffer> Open(SharedMemory shared);

/// Sends memory, with its file if there is one, over a Unix socket of a stream or of packets.
///
/// @errors  Error: the deadline passed, the peer has gone, or the socket takes no files
WARPVERBS_EXPORT void SendShared(int socket, const SharedMemory& shared, Deadline deadline);

/// Receives what SendShared() sends. No file that comes is inherited by a new program, nor lost if this
/// throws.
///
/// @errors  Error: the deadline passed, the peer has gone, or what it sent is no shared memory
WARPVERBS_EXPORT SharedMemory ReceiveShared(int socket, Deadline deadline);

}  // namespace warpverbs::inline v0_2::host
