// Memory, copies, registration of host memory, pointers and exports.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "driver.hpp"
#include "fake_cuda.hpp"
#include "settings.hpp"

using namespace fake_cuda;

namespace {

constexpr Address kElsewhere = Address{1} << 40;  // how far off the GPU sees memory that has two addresses

constexpr unsigned kPortable = 1, kDeviceMap = 2, kIoMemory = 4;

enum PointerAttribute : int {
  kContext = 1,
  kMemoryType = 2,
  kSyncMemops = 6,
  kBufferId = 7,
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIpcCapable = 10,
  kRangeStart = 11,
  kRangeSize = 12,
  kMapped = 13,
  kHandleTypes = 14,
  kGpuDirectCapable = 15,
  kMappingSize = 18,
  kMappingStart = 19,
  kMemoryBlockId = 20,
};

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

/// What an address belongs to: an allocation, a mapping or addresses that are only reserved.
Range* FindAny(Driver& driver, Address address) {
  if (Range* const range = driver.Find(address)) return range;
  if (Range* const range = driver.FindRange(address)) return range;
  if (Range* const range = FindIn(driver.managed, address)) return range;
  return FindIn(driver.registered, address);
}

/// What the driver says of an address. Of one that it does not know it says nothing: zeros.
int GetAttribute(Driver& driver, int attribute, void* value, Address address) {
  constexpr unsigned kHost = 1, kDevice = 2;
  constexpr int kNoDevice = -2;
  const Range* const range = FindAny(driver, address);
  const Range* const whole = driver.FindRange(address);  // of a mapping, all that was reserved
  const bool on_gpu = whole != nullptr;
  const bool mapped = range != nullptr && !range->reserved;
  switch (attribute) {
    case kContext:
      *static_cast<CUctx_st**>(value) = range == nullptr ? nullptr : driver.contexts[range->gpu];
      return kSuccess;
    case kMemoryType:
      *static_cast<unsigned*>(value) = range == nullptr ? 0 : on_gpu || range->managed ? kDevice : kHost;
      return kSuccess;
    case kSyncMemops:
      *static_cast<bool*>(value) = range != nullptr && range->sync_memops;
      return kSuccess;
    case kIsManaged:
      *static_cast<bool*>(value) = range != nullptr && range->managed;
      return kSuccess;
    case kDeviceOrdinal:
      *static_cast<int*>(value) = range == nullptr ? kNoDevice : range->gpu;
      return kSuccess;
    case kRangeStart:
      *static_cast<Address*>(value) = range == nullptr ? 0 : range->vmm ? whole->start : range->start;
      return kSuccess;
    case kRangeSize:
      *static_cast<size_t*>(value) = range == nullptr ? 0 : range->vmm ? whole->bytes : range->bytes;
      return kSuccess;
    case kMappingStart:
      *static_cast<Address*>(value) = !mapped ? 0 : Get().first_mapping != 0 ? whole->start : range->start;
      return kSuccess;
    case kMappingSize:
      *static_cast<size_t*>(value) = mapped ? range->bytes : 0;
      return kSuccess;
    case kBufferId:
    case kMemoryBlockId:
      *static_cast<uint64_t*>(value) = mapped ? range->id : 0;
      return kSuccess;
    case kMapped:
      *static_cast<bool*>(value) = mapped;
      return kSuccess;
    case kIpcCapable:
      *static_cast<bool*>(value) = on_gpu && mapped && !range->vmm && !range->imported;
      return kSuccess;
    case kHandleTypes:
      *static_cast<uint64_t*>(value) = mapped ? range->handle_types : 0;
      return kSuccess;
    case kGpuDirectCapable:
      *static_cast<bool*>(value) = on_gpu && mapped && range->gpu_direct && Get().gpu_direct != 0;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

/// An end of a copy.
struct End {
  Address address;
  bool on_gpu;

  std::byte* Reach(const char* function, size_t bytes) const {
    return on_gpu ? ReachRange(function, address, bytes) : reinterpret_cast<std::byte*>(address);
  }
  bool Gone() const { return on_gpu && IsGone(address); }
};

End Unified(Address address) {
  const Driver& driver = TheDriver();
  return {address, std::any_of(std::begin(driver.memory), std::end(driver.memory),
                               [&](const auto& memory) { return memory && memory->Covers(address); })};
}

template <class Word>
bool Aligned(const std::byte* to, const std::byte* from) {
  return (reinterpret_cast<Address>(to) | reinterpret_cast<Address>(from)) % sizeof(Word) == 0;
}

/// Aligned words go whole and in order, as between a GPU and those who watch its memory.
template <class Word>
void CopyWord(std::byte* to, std::byte* from) {
  const Word word = std::atomic_ref(*reinterpret_cast<Word*>(from)).load(std::memory_order_acquire);
  std::atomic_ref(*reinterpret_cast<Word*>(to)).store(word, std::memory_order_release);
}

void CopyWords(std::byte* to, std::byte* from, size_t bytes) {
  for (; bytes >= 8 && Aligned<uint64_t>(to, from); to += 8, from += 8, bytes -= 8) {
    CopyWord<uint64_t>(to, from);
  }
  if (bytes == 4 && Aligned<uint32_t>(to, from)) return CopyWord<uint32_t>(to, from);
  std::memcpy(to, from, bytes);
}

int CopyLater(const char* function, const End& to, const End& from, size_t bytes, CUstream_st* stream) {
  {
    const std::lock_guard lock(TheDriver().mutex);
    if (to.Gone() || from.Gone()) return kInvalidValue;
    to.Reach(function, bytes);
    from.Reach(function, bytes);
  }
  stream->Do([=] {
    const std::lock_guard lock(TheDriver().mutex);
    CopyWords(to.Reach(function, bytes), from.Reach(function, bytes), bytes);
  });
  return kSuccess;
}

/// Aborts unless an address is memory of a context's GPU.
void CheckGpu(const char* function, Address address, const CUctx_st* context) {
  const std::lock_guard lock(TheDriver().mutex);
  const Range* const range = TheDriver().Find(address);
  if (range != nullptr && range->gpu != context->gpu) Abort(function, "the memory is another GPU's");
}

/// Aborts on ranges that overlap, which no driver copies in any order.
void CheckApart(const char* function, Address one, Address other, size_t bytes) {
  if (std::max(one, other) - std::min(one, other) < bytes) Abort(function, "the ranges overlap");
}

constexpr int kLeavesIt = -2;  // in place of a descriptor: the range is more than there is

int ExportAllocated(Driver& driver, const Range& range, Address start, size_t bytes) {
  if ((range.start + range.bytes + kPage - 1) / kPage * kPage < start + bytes) return kLeavesIt;
  return driver.MemoryOf(range.gpu).Export(start, bytes);
}

/// One mapping has its file. What is more or less than one gets another, from then on its only one.
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

int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  return CopyLater(__func__, {to, true}, {reinterpret_cast<Address>(from), false}, bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  return CopyLater(__func__, {reinterpret_cast<Address>(to), false}, {from, true}, bytes, stream);
}

int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  CheckGpu(__func__, to, stream->context);
  CheckGpu(__func__, from, stream->context);
  CheckApart(__func__, to, from, bytes);
  return CopyLater(__func__, {to, true}, {from, true}, bytes, stream);
}

int cuMemcpyPeerAsync(Address to, CUctx_st* to_context, Address from, CUctx_st* from_context, size_t bytes,
                      CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  CheckGpu(__func__, to, to_context);
  CheckGpu(__func__, from, from_context);
  CheckApart(__func__, to, from, bytes);
  return CopyLater(__func__, {to, true}, {from, true}, bytes, stream);
}

int cuMemcpyAsync(Address to, Address from, size_t bytes, CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  return CopyLater(__func__, Unified(to), Unified(from), bytes, stream);
}

int cuMemsetD8Async(Address at, unsigned char value, size_t bytes, CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  const char* const function = __func__;
  stream->Do([=] {
    const std::lock_guard lock(TheDriver().mutex);
    std::memset(ReachRange(function, at, bytes), value, bytes);
  });
  return kSuccess;
}

int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  if (const int failure = Failure(__func__)) return failure;
  const int gpu = Current(__func__)->gpu;
  // Who writes past its last page faults.
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

int cuPointerGetAttribute(void* value, int attribute, Address address) {
  if (const int failure = Failure(__func__)) return failure;
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  if (!driver.initialised) return kNotInitialized;
  return FindAny(driver, address) != nullptr ? GetAttribute(driver, attribute, value, address)
                                             : kInvalidValue;
}

int cuPointerSetAttribute(const void* value, int attribute, Address address) {
  if (const int failure = Failure(__func__)) return failure;
  const std::lock_guard lock(TheDriver().mutex);
  Range* const range = TheDriver().Find(address);
  if (range == nullptr || attribute != kSyncMemops) return kInvalidValue;
  if (!range->gpu_direct || range->imported) return kNotSupported;
  range->sync_memops = *static_cast<const unsigned*>(value) != 0;
  return kSuccess;
}

int cuMemGetAddressRange_v2(Address* start, size_t* bytes, Address address) {
  if (const int failure = Failure(__func__)) return failure;
  const std::lock_guard lock(TheDriver().mutex);
  const Range* const range = TheDriver().Find(address);
  if (range == nullptr) return 500;  // CUDA_ERROR_NOT_FOUND
  if (start != nullptr) *start = range->start;
  if (bytes != nullptr) *bytes = range->bytes;
  return kSuccess;
}

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
  // The first or the last allocation may begin or end within a page.
  const Range* range = driver.Find(start);
  if (range == nullptr) range = driver.Find(start + kPage - 1);
  if (range == nullptr) return kInvalidValue;
  if (range->imported || range->shared) return kNotSupported;
  const int fd =
      range->vmm ? ExportMapped(driver, *range, start, bytes) : ExportAllocated(driver, *range, start, bytes);
  if (fd == kLeavesIt) return kInvalidValue;
  if (fd < 0) return kNotSupported;
  *static_cast<int*>(handle) = fd;
  driver.pcie_exports += over_pcie ? 1 : 0;
  return kSuccess;
}

}  // extern "C"
