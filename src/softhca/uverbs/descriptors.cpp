#include "uverbs/descriptors.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

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

/// The descriptor that this thread is closing in CloseOwn(). The initial-exec model reserves it when a thread
/// starts: close() in a signal handler must not allocate it.
[[gnu::tls_model("initial-exec")]] thread_local int own_closing = -1;

}  // namespace

FileId Identify(int fd) {
  struct stat status;
  // Not fstat(): its hook asks whose file this is, and takes the lock that the caller may hold.
  return fstatat(fd, "", &status, AT_EMPTY_PATH) == 0 ? FileId{status.st_dev, status.st_ino} : FileId{};
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
