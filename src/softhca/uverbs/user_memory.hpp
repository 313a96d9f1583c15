#pragma once

#include <cstddef>
#include <cstdint>

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

/// A queue in the program's memory, brought in and writable.
///
/// @errors  Errno: as PopulateRange(); EINVAL for one that is not aligned to its 64-byte units
uint8_t* UserQueue(uint64_t address, uint64_t bytes);

/// A doorbell record in the program's memory.
///
/// @errors  Errno: as UserQueue(), with 8 bytes
void* UserRecord(uint64_t address);

}  // namespace softhca::uverbs
