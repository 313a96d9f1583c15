// Memory of cuMemCreate(): allocations, reserved addresses, and files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "driver.hpp"
#include "settings.hpp"

using namespace fake_cuda;

namespace {

using VmmHandle = unsigned long long;

constexpr size_t kGranularity = 65536;
constexpr int kPosixFile = 1;

/// The first fields of CUmemAllocationProp.
struct Properties {
  int type;
  int handle_types;
  int location_type;
  int location;
  void* windows;
  unsigned char compression;
  unsigned char gpu_direct;
};

/// Drops one reference of a handle or a mapping.
void Drop(Driver& driver, VmmHandle handle) {
  const auto found = driver.physical.find(handle);
  if (--found->second.references > 0) return;
  close(found->second.file);
  driver.physical.erase(found);
}

VmmHandle Add(Driver& driver, const Physical& physical) {
  driver.physical[physical.id] = physical;
  return physical.id;
}

}  // namespace

extern "C" {

int cuMemGetAllocationGranularity(size_t* granularity, const Properties*, int) {
  if (const int failure = Failure(__func__)) return failure;
  *granularity = kGranularity;
  return kSuccess;
}

int cuMemAddressReserve(Address* address, size_t bytes, size_t, Address, unsigned long long) {
  if (const int failure = Failure(__func__)) return failure;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  if (bytes == 0 || bytes % kGranularity != 0) return kInvalidValue;
  *address = driver.MemoryOf(0).Allocate(bytes, kPage);
  if (*address == 0) return kOutOfMemory;
  driver.FindRange(*address)->reserved = true;
  return kSuccess;
}

int cuMemAddressFree(Address address, size_t) {
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  const Range* const range = driver.FindRange(address);
  if (range == nullptr || !range->reserved || range->start != address)
    Abort(__func__, "nothing was reserved there");
  const auto next = driver.mapped.lower_bound(address);
  if (next != driver.mapped.end() && range->Has(next->first, 1)) Abort(__func__, "memory is still mapped");
  driver.Covering(address)->Free(address);
  return kSuccess;
}

int cuMemCreate(VmmHandle* handle, size_t bytes, const Properties* properties, unsigned long long) {
  if (const int failure = Failure(__func__)) return failure;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  if (bytes == 0 || bytes % kGranularity != 0) return kInvalidValue;
  *handle = Add(driver, {.id = NextId(),
                         .gpu = properties->location,
                         .bytes = bytes,
                         .file = NewFile(bytes),
                         .handle_types = static_cast<uint64_t>(properties->handle_types),
                         .gpu_direct = properties->gpu_direct != 0 && Get().vmm != 0});
  return kSuccess;
}

int cuMemRelease(VmmHandle handle) {
  constexpr bool kGivesBack = true;
  if (const int failure = Failure(__func__, kGivesBack)) return failure;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  if (driver.physical.count(handle) == 0) Abort(__func__, "the handle is unknown");
  Drop(driver, handle);
  return kSuccess;
}

int cuMemMap(Address address, size_t bytes, size_t offset, VmmHandle handle, unsigned long long) {
  if (const int failure = Failure(__func__)) return failure;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  const Range* const range = driver.FindRange(address);
  const auto physical = driver.physical.find(handle);
  if (range == nullptr || !range->reserved || !range->Has(address, bytes) || offset != 0 ||
      physical == driver.physical.end() || bytes > physical->second.bytes) {
    return kInvalidValue;
  }
  Physical& memory = physical->second;
  ++memory.references;
  driver.Covering(address)->MapPages(memory.file, 0, address, bytes);
  driver.mapped[address] = {.start = address,
                            .bytes = bytes,
                            .gpu = memory.gpu,
                            .id = memory.id,
                            .vmm = true,
                            .handle_types = memory.handle_types,
                            .gpu_direct = memory.gpu_direct,
                            .file = memory.file};
  return kSuccess;
}

int cuMemSetAccess(Address, size_t, const void*, size_t) { return Failure(__func__); }

int cuMemUnmap(Address address, size_t bytes) {
  constexpr bool kGivesBack = true;
  if (const int failure = Failure(__func__, kGivesBack)) return failure;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  const auto first = driver.mapped.find(address);
  if (first == driver.mapped.end()) Abort(__func__, "nothing was mapped there");
  const auto last = driver.mapped.lower_bound(address + bytes);
  std::for_each(first, last, [&](const auto& entry) { Drop(driver, entry.second.id); });
  driver.mapped.erase(first, last);
  driver.Covering(address)->TakeBack(address, bytes);
  driver.Covering(address)->MapOwnPages(address, bytes);
  return kSuccess;
}

int cuMemRetainAllocationHandle(VmmHandle* handle, void* memory) {
  if (const int failure = Failure(__func__)) return failure;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  const Range* const range = FindIn(driver.mapped, reinterpret_cast<Address>(memory));
  if (range == nullptr) return kInvalidValue;
  *handle = range->id;
  ++driver.physical[range->id].references;
  return kSuccess;
}

int cuMemExportToShareableHandle(void* shareable, VmmHandle handle, int type, unsigned long long) {
  if (const int failure = Failure(__func__)) return failure;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  const auto found = driver.physical.find(handle);
  if (found == driver.physical.end() || type != kPosixFile ||
      (found->second.handle_types & kPosixFile) == 0) {
    return kInvalidValue;
  }
  *static_cast<int*>(shareable) = Duplicate(found->second.file);
  return kSuccess;
}

int cuMemImportFromShareableHandle(VmmHandle* handle, void* os_handle, int type) {
  if (const int failure = Failure(__func__)) return failure;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  struct stat file {};
  const auto fd = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  if (type != kPosixFile || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return kInvalidValue;
  *handle = Add(driver, {.id = NextId(),
                         .bytes = static_cast<size_t>(file.st_size),
                         .file = Duplicate(fd),
                         .handle_types = kPosixFile,
                         .gpu_direct = Get().vmm != 0});
  return kSuccess;
}

}  // extern "C"
