#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dma/device_memory.hpp"
#include "uverbs/errors.hpp"

/// The program's memory, touched as a kernel touches it: a bad pointer is an error, not a crash.
namespace softhca::uverbs {

/// An address that came as a number, as all do in the kernel's interface.
inline uint8_t* UserPointer(uint64_t address) {
  return reinterpret_cast<uint8_t*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// @errors  Errno: EFAULT
void CopyIn(void* to, uint64_t from, size_t bytes);
void CopyOut(uint64_t to, const void* from, size_t bytes);

/// Brings the range into memory, writable if asked, as registration does on a kernel.
///
/// @errors  Errno: EFAULT for memory that is not there or not writable, EINVAL for one that wraps round
void PopulateRange(uint64_t start, uint64_t bytes, bool writable);

/// Memory to be registered.
struct UserRange {
  uint8_t* start;
  uint64_t bytes;
  std::shared_ptr<DeviceMemory> device{};  ///< whose memory it is; null: the processor's
  std::shared_ptr<const void> mapping{};   ///< what lets the processor see it; null: the program does

  /// Keeps it within the hardware's reach as long as the result lives; null: it is anyway.
  ///
  /// @pre  the engine is paused, also when the result goes
  std::shared_ptr<const void> Hold() const;
};

/// Finds memory that a program wishes to register: brings it in, or learns whose it is.
///
/// @errors  Errno: as PopulateRange(), for memory that no GPU has either
UserRange FindRange(uint64_t start, uint64_t bytes, bool writable);

/// The same for memory of a dma-buf, which the processor must be able to map.
///
/// @errors  Errno: EOPNOTSUPP if its exporter does not allow that, EBADF, EINVAL for what lies outside
UserRange FindExport(int fd, uint64_t offset, uint64_t bytes, bool writable);

/// A queue in the program's memory, brought in and writable.
///
/// @errors  Errno: as PopulateRange(); EINVAL for one that is not aligned to its 64-byte units
inline uint8_t* UserQueue(uint64_t address, uint64_t bytes) {
  if (address % 64 != 0) throw Errno(EINVAL, "a queue must be aligned to 64 bytes");
  PopulateRange(address, bytes, true);
  return UserPointer(address);
}

/// A doorbell record in the program's memory.
///
/// @errors  Errno: as UserQueue(), with 8 bytes
inline void* UserRecord(uint64_t address) {
  if (address % 8 != 0) throw Errno(EINVAL, "a doorbell record must be aligned to 8 bytes");
  PopulateRange(address, 8, true);
  return UserPointer(address);
}

}  // namespace softhca::uverbs
