#include <cerrno>

#include "uverbs/errors.hpp"
#include "uverbs/user_memory.hpp"

/// Queues in whatever memory a program has: that of a process, or a fuzzer's.
namespace softhca::uverbs {

uint8_t* UserQueue(uint64_t address, uint64_t bytes) {
  if (address % 64 != 0) throw Errno(EINVAL, "a queue must be aligned to 64 bytes");
  PopulateRange(address, bytes, true);
  return UserPointer(address);
}

void* UserRecord(uint64_t address) {
  if (address % 8 != 0) throw Errno(EINVAL, "a doorbell record must be aligned to 8 bytes");
  PopulateRange(address, 8, true);
  return UserPointer(address);
}

}  // namespace softhca::uverbs
