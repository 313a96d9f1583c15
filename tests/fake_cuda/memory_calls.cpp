// Allocations, and registration of host memory.
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "driver.hpp"
#include "settings.hpp"

using namespace fake_cuda;

namespace {

constexpr Address kElsewhere = Address{1} << 40;  // distance between the addresses, if host and GPU see two

constexpr unsigned kPortable = 1, kDeviceMap = 2, kIoMemory = 4;

bool IsMapped(Address start, size_t bytes) {
  std::vector<unsigned char> pages(bytes / kPage + 2);
  const Address first = start / kPage * kPage;
  return mincore(reinterpret_cast<void*>(first), start + bytes - first, pages.data()) == 0;
}

bool Overlaps(const std::map<Address, Range>& ranges, Address start, size_t bytes) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const auto& entry) {
    return entry.first < start + bytes && start < entry.first + entry.second.bytes;
  });
}

}  // namespace

extern "C" {

int cuMemAlloc_v2(Address* address, size_t bytes) {
  if (const int failure = Failure(__func__)) return failure;
  const int gpu = Current(__func__)->gpu;
  const std::lock_guard lock(TheDriver().mutex);
  if (bytes == 0) return kInvalidValue;
  *address = TheDriver().MemoryOf(gpu).Allocate(bytes);
  return *address == 0 ? kOutOfMemory : kSuccess;
}

int cuMemAllocManaged(Address* address, size_t bytes, unsigned) {
  if (const int failure = Failure(__func__)) return failure;
  const int gpu = Current(__func__)->gpu;
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<Address>(pages);
  const std::lock_guard lock(TheDriver().mutex);
  TheDriver().managed[*address] = {
      .start = *address, .bytes = bytes, .gpu = gpu, .managed = true, .id = NextId()};
  return kSuccess;
}

int cuMemFree_v2(Address address) {
  Current(__func__);
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  const auto managed = driver.managed.find(address);
  if (managed != driver.managed.end()) {
    munmap(reinterpret_cast<void*>(address), managed->second.bytes);
    driver.managed.erase(managed);
    return kSuccess;
  }
  const Range* const range = driver.Find(address);
  if (range == nullptr || range->vmm || range->imported || !driver.MemoryOf(range->gpu).Free(address))
    Abort(__func__, "nothing was allocated there");
  return kSuccess;
}

int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  if (const int failure = Failure(__func__)) return failure;
  const int gpu = Current(__func__)->gpu;
  // The guard page makes writes past the end fault.
  *memory = mmap(nullptr, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (*memory == MAP_FAILED || mprotect(*memory, bytes, PROT_READ | PROT_WRITE) != 0) return kOutOfMemory;
  const auto start = reinterpret_cast<Address>(*memory);
  const std::lock_guard lock(TheDriver().mutex);
  TheDriver().registered[start] = {
      .start = start, .bytes = bytes, .gpu = gpu, .pinned = true, .id = NextId()};
  return kSuccess;
}

int cuMemFreeHost(void* memory) {
  Current(__func__);
  const std::lock_guard lock(TheDriver().mutex);
  const auto found = TheDriver().registered.find(reinterpret_cast<Address>(memory));
  if (found == TheDriver().registered.end()) Abort(__func__, "nothing was allocated there");
  munmap(memory, found->second.bytes + kPage);
  TheDriver().registered.erase(found);
  return kSuccess;
}

int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
  if (const int failure = Failure(__func__)) return failure;
  const int gpu = Current(__func__)->gpu;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  const auto start = reinterpret_cast<Address>(memory);
  if (bytes == 0 || (flags & ~(kPortable | kDeviceMap | kIoMemory)) != 0 || !IsMapped(start, bytes)) {
    return kInvalidValue;
  }
  if (Overlaps(driver.registered, start, bytes)) return kAlreadyRegistered;
  const bool retried = driver.refused_as_io == start;
  driver.refused_as_io = 0;
  if ((flags & kIoMemory) != 0 && Get().uar_io == 0) {
    driver.refused_as_io = start;
    return kNotPermitted;
  }
  if (retried && Get().uar_plain == 0) return kInvalidValue;
  driver.registered[start] = {.start = start, .bytes = bytes, .gpu = gpu, .id = NextId()};
  return kSuccess;
}

int cuMemHostUnregister(void* memory) {
  Current(__func__);
  const std::lock_guard lock(TheDriver().mutex);
  if (TheDriver().registered.erase(reinterpret_cast<Address>(memory)) == 0) {
    Abort(__func__, "nothing was registered there");
  }
  return kSuccess;
}

int cuMemHostGetDevicePointer_v2(Address* address, void* memory, unsigned) {
  if (const int failure = Failure(__func__)) return failure;
  Current(__func__);
  const std::lock_guard lock(TheDriver().mutex);
  const auto start = reinterpret_cast<Address>(memory);
  if (FindIn(TheDriver().registered, start) == nullptr) return kInvalidValue;
  *address = Get().same_address != 0 ? start : start + kElsewhere;
  return kSuccess;
}

}  // extern "C"
