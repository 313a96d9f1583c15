// Attributes of addresses.
#include "driver.hpp"
#include "settings.hpp"

using namespace fake_cuda;

namespace {

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
  kPoolHandle = 17,
  kMappingSize = 18,
  kMappingStart = 19,
  kMemoryBlockId = 20,
};

/// Returns the allocation, mapping or reserved range that contains an address.
Range* FindAny(Driver& driver, Address address) {
  if (Range* const range = driver.Find(address)) return range;
  if (Range* const range = driver.FindRange(address)) return range;
  if (Range* const range = FindIn(driver.managed, address)) return range;
  return FindIn(driver.registered, address);
}

/// Returns an attribute of an address. An unknown address has zeros.
int GetAttribute(Driver& driver, int attribute, void* value, Address address) {
  constexpr unsigned kHost = 1, kDevice = 2;
  constexpr int kNoDevice = -2;
  const Range* const range = FindAny(driver, address);
  const Range* const whole = driver.FindRange(address);  // for a mapping the whole reserved range
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
      *static_cast<bool*>(value) = on_gpu && mapped && !range->vmm && !range->imported && Get().pools == 0;
      return kSuccess;
    case kHandleTypes:
      *static_cast<uint64_t*>(value) = mapped ? range->handle_types : 0;
      return kSuccess;
    case kGpuDirectCapable:
      *static_cast<bool*>(value) = on_gpu && mapped && range->gpu_direct && Get().gpu_direct != 0;
      return kSuccess;
    case kPoolHandle:
      if (!on_gpu || !mapped || range->vmm || range->imported || Get().pools == 0) return kInvalidValue;
      *static_cast<const void**>(value) = range;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

}  // namespace

extern "C" {

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

}  // extern "C"
