#include "uverbs/descriptors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "uverbs/errors.hpp"

namespace softhca::uverbs {
namespace {

/// One bit for each descriptor number. Numbers past the end always count as ours once one was added.
class DescriptorHints {
 public:
  void Add(int fd) {
    any_.store(true, std::memory_order_relaxed);
    if (InRange(fd)) words_[fd / 64].fetch_or(uint64_t{1} << fd % 64, std::memory_order_relaxed);
  }
  void Remove(int fd) {
    if (InRange(fd)) words_[fd / 64].fetch_and(~(uint64_t{1} << fd % 64), std::memory_order_relaxed);
  }
  bool Has(int fd) const {
    if (!InRange(fd)) return fd >= 0 && any_.load(std::memory_order_relaxed);
    return (words_[fd / 64].load(std::memory_order_relaxed) >> fd % 64 & 1) != 0;
  }

 private:
  static constexpr int kLimit = 65536;
  static bool InRange(int fd) { return fd >= 0 && fd < kLimit; }

  std::array<std::atomic<uint64_t>, kLimit / 64> words_{};
  std::atomic<bool> any_{false};
};

DescriptorHints g_hints;

/// Permissions that no other file has: they tell a device's file from the program's. Its size cannot, since a
/// limit on file sizes shortens it.
constexpr mode_t kDeviceFileMode = S_ISVTX | 0606;
constexpr off_t kMaxDeviceFileBytes = off_t{1} << 40;

/// Returns the largest size that exceeds no limit: past it, the kernel kills by SIGXFSZ.
off_t DeviceFileBytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return kMaxDeviceFileBytes;
  return static_cast<off_t>(std::min(limit.rlim_cur, static_cast<rlim_t>(kMaxDeviceFileBytes)));
}

/// The descriptor that this thread is closing in CloseOwn(). The initial-exec model reserves it when a thread
/// starts: close() in a signal handler must not allocate it.
[[gnu::tls_model("initial-exec")]] thread_local int own_closing = -1;

}  // namespace

FileId Identify(int fd) {
  struct stat status;
  // Not fstat(): its hook asks whose file this is, and takes the lock that the caller may hold.
  return fstatat(fd, "", &status, AT_EMPTY_PATH) == 0 ? FileId{status.st_dev, status.st_ino} : FileId{};
}

int MakeDeviceFile(int flags) {
  const int fd = memfd_create("softhca", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0);
  if (fd < 0) throw Errno(errno, "cannot make a file for a device");
  if (ftruncate(fd, DeviceFileBytes()) != 0 || fchmod(fd, kDeviceFileMode) != 0) {
    const int error = errno;
    CloseOwn(fd);
    throw Errno(error, "cannot give a device's file its size");
  }
  return fd;
}

bool IsDeviceFile(mode_t mode) { return mode == (S_IFREG | kDeviceFileMode); }

uint64_t FileBytes(int fd) {
  struct stat status;
  return fstatat(fd, "", &status, AT_EMPTY_PATH) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

bool MayBeOurs(int fd) { return g_hints.Has(fd) && fd != own_closing; }
void AddHint(int fd) { g_hints.Add(fd); }
void RemoveHint(int fd) { g_hints.Remove(fd); }

void CloseOwn(int fd) {
  RemoveHint(fd);
  own_closing = fd;
  close(fd);
  own_closing = -1;
}

}  // namespace softhca::uverbs
