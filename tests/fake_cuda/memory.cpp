#include "memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "settings.hpp"

namespace fake_cuda {
namespace {

constexpr int kUninitialised = 0xa5;  // tests must not rely on zeros

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

std::byte* Map(int fd, size_t bytes, int protection) {
  void* const pages = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (pages == MAP_FAILED) Abort("mmap", "it failed");
  return static_cast<std::byte*>(pages);
}

}  // namespace

int NewFile(size_t bytes) {
  const int fd = memfd_create("fake_cuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) Abort("memfd_create", "it failed");
  return fd;
}

int Duplicate(int fd) {
  const int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) Abort("fcntl", "it failed");
  return duplicate;
}

uint64_t NextId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

DeviceMemory::DeviceMemory(int gpu, size_t bytes, bool touchable)
    : gpu_(gpu),
      bytes_(bytes),
      fd_(NewFile(bytes)),
      untouchable_(Map(fd_, bytes, PROT_NONE)),
      reachable_(Map(fd_, bytes, PROT_READ | PROT_WRITE)) {
  LetTouch(touchable);
}

DeviceMemory::~DeviceMemory() {
  for (const auto& [at, exported] : exports_) close(exported.fd);
  munmap(untouchable_, bytes_);
  munmap(reachable_, bytes_);
  close(fd_);
}

Address DeviceMemory::Allocate(size_t bytes, size_t alignment) {
  Address at = start();
  for (const auto& [begin, range] : allocations_) {
    if (begin >= at && begin - at >= bytes) break;
    at = start() + RoundUp(begin + range.bytes - start(), alignment);
  }
  if (at - start() > bytes_ || bytes > bytes_ - (at - start())) return 0;
  std::memset(Reach(at), kUninitialised, bytes);
  allocations_[at] = {.start = at, .bytes = bytes, .gpu = gpu_, .id = NextId()};
  return at;
}

bool DeviceMemory::Free(Address at) {
  const auto found = allocations_.find(at);
  if (found == allocations_.end()) return false;
  TakeBack(at, found->second.bytes);
  allocations_.erase(found);
  return true;
}

Range* DeviceMemory::Find(Address address) {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  Range& range = std::prev(next)->second;
  return range.Has(address, 1) ? &range : nullptr;
}

void DeviceMemory::LetTouch(bool touch) {
  protection_ = touch ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (mprotect(untouchable_, bytes_, protection_) != 0) Abort("mprotect", "it failed");
}

int DeviceMemory::Export(Address at, size_t bytes) {
  const auto same = exports_.find(at);
  if (same != exports_.end() && same->second.bytes == bytes) return Duplicate(same->second.fd);
  if (HasExports(at, bytes)) return -1;
  const int fd = NewFile(bytes);
  if (pwrite(fd, Reach(at), bytes, 0) != static_cast<ssize_t>(bytes)) Abort("pwrite", "it failed");
  MapPages(fd, 0, at, bytes);
  exports_[at] = {bytes, fd};
  return Duplicate(fd);
}

bool DeviceMemory::HasExports(Address at, size_t bytes) const {
  return std::any_of(exports_.begin(), exports_.end(), [&](const auto& entry) {
    return entry.first < at + bytes && at < entry.first + entry.second.bytes;
  });
}

void DeviceMemory::MapPages(int fd, size_t offset_in_file, Address at, size_t bytes) const {
  const auto offset = static_cast<off_t>(offset_in_file);
  void* const hidden = reinterpret_cast<void*>(at);
  if (mmap(hidden, bytes, protection_, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED ||
      mmap(Reach(at), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED) {
    Abort("mmap", "it failed");
  }
}

void DeviceMemory::TakeBack(Address at, size_t bytes) {
  for (auto it = exports_.begin(); it != exports_.end();) {
    const auto [begin, exported] = *it;
    if (begin >= at + bytes || at >= begin + exported.bytes) {
      ++it;
      continue;
    }
    const size_t offset = begin - start();
    if (pwrite(fd_, Reach(begin), exported.bytes, static_cast<off_t>(offset)) < 0)
      Abort("pwrite", "it failed");
    MapPages(fd_, offset, begin, exported.bytes);
    close(exported.fd);
    it = exports_.erase(it);
  }
}

}  // namespace fake_cuda
