#include "uverbs/user_memory.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "dma/cuda.hpp"
#include "dma/cuda_driver.hpp"

namespace softhca::uverbs {
namespace {

constexpr uint64_t kPage = 4096;

iovec Piece(uint64_t address, size_t bytes) { return {UserPointer(address), bytes}; }

[[noreturn]] void Fault(uint64_t address, uint64_t bytes) {
  throw Errno(EFAULT, "the program has no " + std::to_string(bytes) + " bytes at " + std::to_string(address));
}

/// Returns whether mappings of memory or of devices cover the pages and permit the access.
bool Permitted(uint64_t first, uint64_t last, bool writable) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; first < last && std::getline(maps, line);) {
    uint64_t start = 0, end = 0;
    char read = 0, write = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %c%c", &start, &end, &read, &write) != 4 || end <= first) continue;
    if (start > first || read != 'r' || (writable && write != 'w')) return false;
    first = end;
  }
  return first >= last;
}

/// Populates the pages of a range.
///
/// @return  false for memory that is not mapped or does not permit the access
/// @errors  Errno: EINVAL
bool Populate(uint64_t start, uint64_t bytes, bool writable) {
  const uint64_t first = start & ~(kPage - 1);
  const uint64_t last = (start + bytes + kPage - 1) & ~(kPage - 1);
  // Linux counts pages: no bytes inside a page are a page, at the start of one they are none.
  if (start + bytes < start || start + bytes > UINT64_MAX - kPage || first == last) {
    throw Errno(EINVAL, "a range of " + std::to_string(bytes) + " bytes cannot be registered");
  }
  if (madvise(UserPointer(first), last - first, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
    return true;
  // EINVAL is ambiguous: pages without permission, pages of a kind that cannot be populated, or an old
  // kernel.
  return errno == EINVAL && Permitted(first, last, writable);
}

}  // namespace

void CopyIn(void* to, uint64_t from, size_t bytes) {
  if (bytes == 0) return;
  const iovec local{to, bytes};
  const iovec remote = Piece(from, bytes);
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != static_cast<ssize_t>(bytes)) Fault(from, bytes);
}

void CopyOut(uint64_t to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  const iovec local{const_cast<void*>(from), bytes};
  const iovec remote = Piece(to, bytes);
  if (process_vm_writev(getpid(), &local, 1, &remote, 1, 0) != static_cast<ssize_t>(bytes)) Fault(to, bytes);
}

void PopulateRange(uint64_t start, uint64_t bytes, bool writable) {
  if (!Populate(start, bytes, writable)) Fault(start, bytes);
}

std::shared_ptr<const void> UserRange::Hold() const {
  return device == nullptr ? mapping : std::make_shared<DeviceRange>(device, start, bytes);
}

UserRange FindRange(uint64_t start, uint64_t bytes, bool writable) {
  UserRange range{UserPointer(start), bytes};
  if (Populate(start, bytes, writable)) return range;
  range.device = cuda::GpuOf(start, bytes);
  if (range.device == nullptr) Fault(start, bytes);
  return range;
}

UserRange FindExport(int fd, uint64_t offset, uint64_t bytes, bool writable) {
  if (fd == -1) {
    // NCCL and others ask by -1 whether to export GPU memory at all, and take EBADF for yes.
    if (cuda::Driver::Loaded() != nullptr)
      throw Errno(EOPNOTSUPP, "the processor cannot map NVIDIA's dma-bufs: register memory by address");
    throw Errno(EBADF, "-1 is no descriptor of a dma-buf");
  }
  const auto outside = [&] {
    return Errno(EINVAL,
                 "the dma-buf has no " + std::to_string(bytes) + " bytes at " + std::to_string(offset));
  };
  if (bytes == 0 || offset + bytes < offset) throw outside();
  const uint64_t first = offset & ~(kPage - 1);
  const size_t mapped = offset + bytes - first;
  void* const pages = mmap(nullptr, mapped, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd,
                           static_cast<off_t>(first));
  if (pages == MAP_FAILED) {
    if (errno == EBADF) throw Errno(EBADF, "the descriptor of the dma-buf is not open");
    // NVIDIA's driver returns an errno internal to the kernel that the C library cannot describe.
    throw Errno(EOPNOTSUPP, "the processor cannot map the dma-buf (" +
                                std::generic_category().message(errno) + "): register its memory by address");
  }
  std::shared_ptr<const void> mapping(pages,
                                      [mapped](const void* at) { munmap(const_cast<void*>(at), mapped); });
  // Pages past the end can be mapped but not accessed.
  const off_t size = lseek(fd, 0, SEEK_END);
  if (size >= 0 && offset + bytes > static_cast<uint64_t>(size)) throw outside();
  return {static_cast<uint8_t*>(pages) + (offset - first), bytes, nullptr, std::move(mapping)};
}

}  // namespace softhca::uverbs
