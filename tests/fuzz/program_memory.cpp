#include "fuzz/program_memory.hpp"

#include <sys/mman.h>

#include <cstring>

#include "fuzz/require.hpp"
#include "uverbs/errors.hpp"
#include "uverbs/user_memory.hpp"

/// Replaces src/softhca/uverbs/user_memory.cpp, so that an input cannot reach the fuzzer's own memory.
/// Because all its functions are defined here, the linker leaves that member of softhca_commands out.
namespace softhca::uverbs {
namespace {

void CheckRange(uint64_t start, uint64_t bytes) {
  const uint64_t offset = start - kProgramMemory;
  if (start < kProgramMemory || offset > kProgramMemoryBytes || bytes > kProgramMemoryBytes - offset) {
    throw Errno(EFAULT, "the program has no memory at that address");
  }
}

}  // namespace

std::span<uint8_t> ProgramMemory() {
  static uint8_t* const memory = [] {
    void* const mapped = mmap(UserPointer(kProgramMemory), kProgramMemoryBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    Require(mapped == UserPointer(kProgramMemory), "there is room for the program's memory");
    return static_cast<uint8_t*>(mapped);
  }();
  return {memory, kProgramMemoryBytes};
}

void CopyIn(void* to, uint64_t from, size_t bytes) {
  if (bytes == 0) return;
  CheckRange(from, bytes);
  std::memcpy(to, UserPointer(from), bytes);
}

void CopyOut(uint64_t to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  CheckRange(to, bytes);
  std::memcpy(UserPointer(to), from, bytes);
}

void PopulateRange(uint64_t start, uint64_t bytes, bool) {
  if (bytes == 0) throw Errno(EINVAL, "an empty range cannot be registered");
  CheckRange(start, bytes);
}

std::shared_ptr<const void> UserRange::Hold() const { return nullptr; }

UserRange FindRange(uint64_t start, uint64_t bytes, bool writable) {
  PopulateRange(start, bytes, writable);
  return {.start = UserPointer(start), .bytes = bytes};
}

UserRange FindExport(int, uint64_t, uint64_t, bool) { throw Errno(EBADF, "the program has no dma-buf"); }

}  // namespace softhca::uverbs
