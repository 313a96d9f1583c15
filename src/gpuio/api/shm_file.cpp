#include "gpuio/api/shm_file.hpp"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <utility>

#include "gpuio/control/log.hpp"
#include "gpuio/control/owned_file.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

std::byte* Map(int file, size_t bytes, int& error) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  error = mapped == MAP_FAILED ? errno : 0;
  return mapped == MAP_FAILED ? nullptr : static_cast<std::byte*>(mapped);
}

/// Binds memory to a NUMA node. Memory elsewhere is slower, but works.
void BindToNode(std::byte* memory, size_t bytes, int numa) {
  constexpr int kMaxNodes = sizeof(unsigned long) * CHAR_BIT;
  const unsigned long nodes = numa < kMaxNodes ? 1UL << numa : 0;
  if (nodes != 0 && syscall(SYS_mbind, memory, bytes, MPOL_BIND, &nodes, kMaxNodes + 1, 0) == 0) return;
  Log(LogLevel::kWarn, "Cannot bind " + std::to_string(bytes) + " bytes to NUMA node " +
                           std::to_string(numa) + ": " +
                           host::Error::DescribeErrno(nodes == 0 ? EINVAL : errno) +
                           ". Pass a node that numactl --hardware lists.");
}

/// Gives a file its memory.
///
/// A signal makes Linux undo a call that it interrupts. So pieces become smaller until they fit between the
/// signals of a program, and only the last one has to be done again.
/// @source  Linux 6.1, mm/shmem.c, shmem_fallocate()
/// @return  0 or an errno value
int Allocate(int file, size_t bytes) {
  constexpr size_t kLargest = 64 << 20, kSmallest = 4096;
  struct statvfs space {};
  // Pieces that fit would be filled for nothing, at the cost of others.
  if (fstatvfs(file, &space) == 0 && space.f_blocks != 0 && bytes / space.f_frsize > space.f_bavail)
    return ENOSPC;
  size_t piece = kLargest;
  for (size_t at = 0; at < bytes;) {
    const size_t length = std::min(piece, bytes - at);
    const int error = posix_fallocate(file, static_cast<off_t>(at), static_cast<off_t>(length));
    if (error == EINTR) {
      piece = std::max(piece / 2, kSmallest);
    } else if (error != 0) {
      return error;
    } else {
      at += length;
    }
  }
  return 0;
}

}  // namespace

std::unique_ptr<ShmFile> ShmFile::Create(const std::string& name, size_t bytes, int numa, int& error) {
  const host::FileDescriptor file = MakeOwnFile(bytes, error);
  std::byte* const data = error == 0 ? Map(file.get(), bytes, error) : nullptr;
  if (data != nullptr) {
    if (numa >= 0) BindToNode(data, bytes, numa);  // before it has pages
    error = Allocate(file.get(), bytes);
    if (error == 0) error = NameOwnFile(file.get(), name);
    if (error != 0) munmap(data, bytes);
  }
  if (error != 0) return nullptr;
  return std::unique_ptr<ShmFile>(new ShmFile(name, data, bytes, getpid()));
}

std::unique_ptr<ShmFile> ShmFile::Open(const std::string& name, size_t bytes, int& error) {
  const host::FileDescriptor file(shm_open(("/" + name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0));
  struct stat status {};
  error = !file || fstat(file.get(), &status) != 0 ? errno : 0;
  if (error == 0 && (!S_ISREG(status.st_mode) || static_cast<size_t>(status.st_size) < bytes)) error = EINVAL;
  std::byte* const data = error == 0 ? Map(file.get(), bytes, error) : nullptr;
  return data == nullptr ? nullptr : std::unique_ptr<ShmFile>(new ShmFile(name, data, bytes, 0));
}

ShmFile::~ShmFile() {
  munmap(data_, size_);
  if (creator_ == getpid()) shm_unlink(("/" + name_).c_str());
}

}  // namespace warpverbs::inline v0_2::gpuio
