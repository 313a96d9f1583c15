// Exports of memory as files (dma-bufs).
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "driver.hpp"
#include "settings.hpp"

using namespace fake_cuda;

namespace {

constexpr int kLeavesIt = -2;  // instead of a descriptor: the range leaves its allocation

/// Returns a file of the right size that nobody can map.
int ExportUnmapped(size_t bytes) {
  const int file = NewFile(bytes);
  const int fd = open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_WRONLY | O_CLOEXEC);
  close(file);
  return fd;
}

int ExportAllocated(Driver& driver, const Range& range, Address start, size_t bytes) {
  if ((range.start + range.bytes + kPage - 1) / kPage * kPage < start + bytes) return kLeavesIt;
  if (Get().mapped_exports == 0) return ExportUnmapped(bytes);
  return driver.MemoryOf(range.gpu).Export(start, bytes);
}

/// Exports one mapping by its own file. A range of more or less than one mapping moves its pages to a new
/// file.
int ExportMapped(Driver& driver, const Range& first, Address start, size_t bytes) {
  for (Address at = start; at < start + bytes;) {
    const Range* const range = FindIn(driver.mapped, at);
    if (range == nullptr) return kLeavesIt;
    if (!range->gpu_direct) return -1;
    at = range->start + range->bytes;
  }
  const bool is_one = first.start == start && bytes <= first.bytes;
  return is_one ? Duplicate(first.file) : driver.Covering(start)->Export(start, bytes);
}

}  // namespace

extern "C" {

int cuMemGetHandleForAddressRange(void* handle, Address start, size_t bytes, int type,
                                  unsigned long long flags) {
  if (const int failure = Failure(__func__)) return failure;
  constexpr int kDmaBuf = 1;
  constexpr unsigned long long kOverPcie = 1;
  Current(__func__);
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  if (Get().dma_buf == 0) return kNotSupported;
  const bool over_pcie = flags == kOverPcie && Get().version >= 12080;
  if (type != kDmaBuf || (flags != 0 && !over_pcie) || start % kPage != 0 || bytes % kPage != 0 || bytes == 0)
    return kInvalidValue;
  if (over_pcie && Get().pcie == 0) return kNotSupported;
  // The first or last allocation may begin or end within a page.
  const Range* range = driver.Find(start);
  if (range == nullptr) range = driver.Find(start + kPage - 1);
  if (range == nullptr) return kInvalidValue;
  if (range->imported || (range->shared && Get().mapped_exports != 0)) return kNotSupported;
  const int fd =
      range->vmm ? ExportMapped(driver, *range, start, bytes) : ExportAllocated(driver, *range, start, bytes);
  if (fd == kLeavesIt) return kInvalidValue;
  if (fd < 0) return kNotSupported;
  *static_cast<int*>(handle) = fd;
  driver.pcie_exports += over_pcie ? 1 : 0;
  return kSuccess;
}

}  // extern "C"
