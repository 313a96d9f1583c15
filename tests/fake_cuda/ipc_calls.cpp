// Allocations that other processes open, by the file that holds them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "driver.hpp"
#include "settings.hpp"

using namespace fake_cuda;

namespace {

/// CUipcMemHandle: 64 bytes, passed by value.
struct Handle {
  static constexpr uint32_t kMagic = 0xfa4ec0da;

  uint32_t magic;
  int gpu;
  int process;
  int file;
  uint64_t offset;
  uint64_t bytes;
  uint64_t id;
  uint64_t reserved[3];
};
static_assert(sizeof(Handle) == 64);

constexpr size_t kWholeHandle = 64;

size_t FirstPage(size_t offset) { return offset / kPage * kPage; }
size_t PagesBytes(const Handle& handle) {
  return (handle.offset + handle.bytes + kPage - 1) / kPage * kPage - FirstPage(handle.offset);
}

/// Maps the pages of another process's allocation. @return  0 if no addresses are left
Address MapPagesOf(Driver& driver, const Handle& handle, int file) {
  const Address at = driver.MemoryOf(handle.gpu).Allocate(PagesBytes(handle), kPage);
  if (at == 0) return 0;
  driver.FindRange(at)->imported = true;  // the whole pages around the allocation
  driver.Covering(at)->MapPages(file, FirstPage(handle.offset), at, PagesBytes(handle));
  const Address start = at + handle.offset % kPage;
  driver.imported[start] = {.start = start,
                            .bytes = handle.bytes,
                            .gpu = handle.gpu,
                            .id = NextId(),
                            .imported = true,
                            .gpu_direct = false};
  driver.opened[start] = {.process = handle.process, .id = handle.id, .at = at};
  return start;
}

}  // namespace

extern "C" {

int cuIpcGetMemHandle(void* out, Address address) {
  if (const int failure = Failure(__func__)) return failure;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  Range* const range = driver.Find(address);
  if (range == nullptr || range->vmm || range->imported || Get().pools != 0) return kInvalidValue;
  const DeviceMemory& memory = driver.MemoryOf(range->gpu);
  if (memory.HasExports(range->start, range->bytes)) return kNotSupported;
  range->shared = true;
  static_assert(sizeof(Handle) == kWholeHandle);
  const Handle handle{.magic = Handle::kMagic,
                      .gpu = range->gpu,
                      .process = getpid(),
                      .file = memory.file(),
                      .offset = memory.OffsetOf(range->start),
                      .bytes = range->bytes,
                      .id = range->id,
                      .reserved = {}};
  std::memcpy(out, &handle, sizeof handle);
  return kSuccess;
}

int cuIpcOpenMemHandle_v2(Address* address, Handle handle, unsigned flags) {
  if (const int failure = Failure(__func__)) return failure;
  Current(__func__);
  constexpr unsigned kLazyPeerAccess = 1;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  if (handle.magic != Handle::kMagic || flags != kLazyPeerAccess) return kInvalidValue;
  if (handle.process == getpid()) return kInvalidContext;
  for (auto& [start, opened] : driver.opened) {
    if (opened.process != handle.process || opened.id != handle.id) continue;
    ++opened.references;
    *address = start;
    return kSuccess;
  }
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return kInvalidValue;
  *address = MapPagesOf(driver, handle, file);
  close(file);
  return *address == 0 ? kOutOfMemory : kSuccess;
}

int cuIpcCloseMemHandle(Address address) {
  constexpr bool kGivesBack = true;
  if (const int failure = Failure(__func__, kGivesBack)) return failure;
  Current(__func__);
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  const auto found = driver.opened.find(address);
  if (found == driver.opened.end()) Abort(__func__, "nothing was opened there");
  if (--found->second.references > 0) return kSuccess;
  const Address at = found->second.at;
  DeviceMemory& memory = *driver.Covering(at);
  memory.MapOwnPages(at, driver.FindRange(at)->bytes);
  driver.imported.erase(address);
  driver.opened.erase(found);
  memory.Free(at);
  return kSuccess;
}

}  // extern "C"
