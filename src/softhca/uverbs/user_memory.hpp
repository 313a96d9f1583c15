#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dma/device_memory.hpp"
#include "uverbs/errors.hpp"

/// Access to the program's memory as from a kernel: a bad pointer is an error, not a crash.
namespace softhca::uverbs {

/// Converts an address of the kernel's interface to a pointer.
inline uint8_t* UserPointer(uint64_t address) {
  return reinterpret_cast<uint8_t*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// Copies from and to the program's memory.
///
/// @errors  Errno: EFAULT
void CopyIn(void* to, uint64_t from, size_t bytes);
void CopyOut(uint64_t to, const void* from, size_t bytes);

/// Populates the pages of a range, as registration in a kernel does.
///
/// @errors  Errno: EFAULT for memory that is not mapped or not writable, EINVAL for a range that wraps around
void PopulateRange(uint64_t start, uint64_t bytes, bool writable);

/// Memory to register.
struct UserRange {
  uint8_t* start;
  uint64_t bytes;
  std::shared_ptr<DeviceMemory> device{};  ///< owner of the memory; null: the processor
  std::shared_ptr<const void> mapping{};   ///< mapping for the processor; null: the program's own

  /// Keeps the memory accessible to the hardware for the lifetime of the result; null if nothing needs
  /// keeping.
  ///
  /// @pre  the engine is paused, also when the result is destroyed
  std::shared_ptr<const void> Hold() const;
};

/// Finds memory that a program registers: populates it, or finds the GPU that has it.
///
/// @errors  Errno: as PopulateRange(), if no GPU has the memory either
UserRange FindRange(uint64_t start, uint64_t bytes, bool writable);

/// Finds memory of a dma-buf that the processor can map.
///
/// @param fd  -1 asks whether the program's dma-bufs can be registered: EOPNOTSUPP if it uses CUDA, otherwise
/// EBADF
/// @errors  Errno: EOPNOTSUPP if the exporter does not allow mapping, EBADF, EINVAL for a range outside
/// @source  NVIDIA/nccl, src/transport/net_ib.cc, ncclIbDmaBufSupport(), for the question by -1
UserRange FindExport(int fd, uint64_t offset, uint64_t bytes, bool writable);

/// Populates a queue in the program's memory.
///
/// @errors  Errno: as PopulateRange(); EINVAL if it is not aligned to 64 bytes
inline uint8_t* UserQueue(uint64_t address, uint64_t bytes) {
  if (address % 64 != 0) throw Errno(EINVAL, "a queue must be aligned to 64 bytes");
  PopulateRange(address, bytes, true);
  return UserPointer(address);
}

/// Populates a doorbell record in the program's memory.
///
/// @errors  Errno: as UserQueue(), with 8 bytes
inline void* UserRecord(uint64_t address) {
  if (address % 8 != 0) throw Errno(EINVAL, "a doorbell record must be aligned to 8 bytes");
  PopulateRange(address, 8, true);
  return UserPointer(address);
}

}  // namespace softhca::uverbs
