#include "warpverbs/host/pointer_info.hpp"

#include "gpu/cuda_driver.hpp"
#include "gpu/hip_runtime.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

/// Queries the driver's attributes of an address one by one: the call for several needs a current context.
class PointerAttributes {
 public:
  PointerAttributes(const CudaDriver& driver, const void* memory)
      : driver_(driver), address_(ToCuda(memory)) {}

  /// @return  a CUresult
  template <class T>
  int Ask(T& value, int attribute) const {
    return driver_.PointerGetAttribute(&value, attribute, address_);
  }

  /// Returns 0 if the driver does not answer.
  uint64_t Number(int attribute) const {
    uint64_t value = 0;  // the driver writes only the first bytes of a shorter attribute
    return Ask(value, attribute) == 0 ? value : 0;
  }

  /// Returns whether cuMemCreate() made the memory. Only such memory has a handle to retain.
  bool IsVmm() const {
    CudaHandle handle = 0;
    if (driver_.MemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address_)) != 0) return false;
    driver_.MemRelease(handle);
    return true;
  }

  /// Returns whether certainly nothing is mapped at the address.
  bool IsUnmapped() const {
    uint64_t mapped = 0;
    return Ask(mapped, kCudaMapped) == 0 && mapped == 0;
  }

 private:
  const CudaDriver& driver_;
  CudaAddress address_;
};

void DescribeAllocation(const PointerAttributes& attributes, PointerInfo& info) {
  info.base = attributes.Number(kCudaRangeStart);
  info.bytes = attributes.Number(kCudaRangeSize);
  info.buffer_id = attributes.Number(kCudaBufferId);
}

/// Describes the mapping of VMM memory. The driver's range is the whole reservation, but mappings in it are
/// exported and replaced one by one.
///
/// @source  CUDA driver API 13.0, cuPointerGetAttribute()
void DescribeMapping(const PointerAttributes& attributes, PointerInfo& info) {
  info.base = attributes.Number(kCudaMappingStart);
  info.bytes = attributes.Number(kCudaMappingSize);
  info.buffer_id = attributes.Number(kCudaMemoryBlockId);
}

PointerInfo DescribeDeviceMemory(const PointerAttributes& attributes, PointerInfo info) {
  info.ipc = attributes.Number(kCudaIpcCapable) != 0;
  info.gpu_direct = attributes.Number(kCudaGpuDirectCapable) != 0;
  info.handle_types = attributes.Number(kCudaHandleTypes);
  if (attributes.IsVmm()) {
    info.kind = PointerKind::kVmm;
    DescribeMapping(attributes, info);
  } else if (!info.ipc && attributes.IsUnmapped()) {
    return {};
  } else {
    info.kind = PointerKind::kDevice;
    DescribeAllocation(attributes, info);
  }
  return info;
}

/// Returns HIP's description of an address that CUDA does not know.
///
/// @source  ROCm/HIP 6.4, hipPointerGetAttributes(): hipErrorInvalidValue for memory that is not HIP's
PointerInfo DescribeByHip(const void* memory) {
  const HipRuntime* const runtime = HipRuntime::FindLoaded();
  if (runtime == nullptr) return {.kind = PointerKind::kHost};
  auto* const address = const_cast<void*>(memory);
  const bool had_failed = runtime->PeekAtLastError() != 0;
  HipRuntime::PointerAttributes attributes{};
  const int known = runtime->PointerGetAttributes(&attributes, memory);
  void* base = nullptr;
  size_t bytes = 0;
  uint64_t id = 0;  // the runtime writes only the first bytes of a shorter attribute
  if (known == 0 && runtime->MemGetAddressRange(&base, &bytes, address) != 0) bytes = 0;
  if (known == 0 && runtime->PointerGetAttribute(&id, HipRuntime::kBufferId, address) != 0) id = 0;
  if (!had_failed) runtime->GetLastError();  // hides our failed query from the program
  if (known == HipRuntime::kInvalidValue || known == HipRuntime::kNotInitialized ||
      known == HipRuntime::kNoDevice) {
    return {.kind = PointerKind::kHost};
  }
  if (known != 0) return {};
  const PointerKind kind = attributes.is_managed != 0 || attributes.type == HipRuntime::kManaged
                               ? PointerKind::kManaged
                           : attributes.type == HipRuntime::kDevice ? PointerKind::kHip
                           : attributes.type == HipRuntime::kHost   ? PointerKind::kPinned
                                                                    : PointerKind::kHost;
  if (kind == PointerKind::kHost) return {.kind = kind};
  return {.kind = kind,
          .ordinal = attributes.device,
          .base = bytes != 0 ? reinterpret_cast<uint64_t>(base) : 0,
          .bytes = bytes,
          .buffer_id = id,
          .of_hip = true};
}

}  // namespace

PointerInfo DescribePointer(const void* memory) {
  if (memory == nullptr) return {};
  const CudaDriver* const driver = CudaDriver::FindLoaded();
  if (driver == nullptr) return DescribeByHip(memory);
  const PointerAttributes attributes(*driver, memory);
  uint64_t type = 0;
  const int known = attributes.Ask(type, kCudaMemoryType);
  if (known == kCudaInvalidValue) return DescribeByHip(memory);
  if (known != 0) return {};
  PointerInfo info;
  uint64_t managed = 0;
  if (attributes.Ask(managed, kCudaIsManaged) != 0 || attributes.Ask(info.ordinal, kCudaDeviceOrdinal) != 0) {
    return {};
  }
  if (managed == 0 && type == kCudaMemoryOfDevice) return DescribeDeviceMemory(attributes, info);
  info.kind = managed != 0 ? PointerKind::kManaged : PointerKind::kPinned;
  DescribeAllocation(attributes, info);
  return info;
}

std::vector<PointerInfo> DescribeRange(const void* memory, size_t bytes) {
  const CudaAddress start = ToCuda(memory);
  std::vector<PointerInfo> pieces{DescribePointer(memory)};
  for (CudaAddress at = start; pieces.back().kind == pieces.front().kind && pieces.back().bytes != 0;) {
    const uint64_t end = pieces.back().base + pieces.back().bytes;
    if (end <= at || end - start >= bytes) break;  // no progress
    at = end;
    pieces.push_back(DescribePointer(reinterpret_cast<const void*>(end)));
  }
  return pieces;
}

const char* ToString(PointerKind kind) {
  switch (kind) {
    case PointerKind::kUnknown:
      return "unallocated memory";
    case PointerKind::kHost:
      return "host memory";
    case PointerKind::kPinned:
      return "pinned host memory";
    case PointerKind::kDevice:
      return "GPU memory";
    case PointerKind::kVmm:
      return "GPU memory by cuMemCreate()";
    case PointerKind::kManaged:
      return "managed memory";
    case PointerKind::kHip:
      return "AMD GPU memory";
  }
  return "unknown";
}

}  // namespace warpverbs::inline v0_2::host
