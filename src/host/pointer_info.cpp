#include "warpverbs/host/pointer_info.hpp"

#include "cuda_driver.hpp"

namespace warpverbs::host {
namespace {

/// What the driver answers of one address. One by one: the call for all at once wants a current context.
class PointerAttributes {
 public:
  PointerAttributes(const CudaDriver& driver, const void* memory)
      : driver_(driver), address_(ToCuda(memory)) {}

  /// @return  a CUresult
  template <class T>
  int Ask(T& value, int attribute) const {
    return driver_.PointerGetAttribute(&value, attribute, address_);
  }

  /// 0 also where the driver does not answer.
  uint64_t Number(int attribute) const {
    uint64_t value = 0;  // of smaller ones the driver writes the first bytes
    return Ask(value, attribute) == 0 ? value : 0;
  }

  /// Whether cuMemCreate() made the memory: only that has a handle to retain.
  bool IsVmm() const {
    CudaHandle handle = 0;
    if (driver_.MemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address_)) != 0) return false;
    driver_.MemRelease(handle);
    return true;
  }

  /// Whether it is certain that nothing is mapped there.
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

/// The range of VMM memory is all that was reserved; what can be exported and come and go is a mapping in it.
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

}  // namespace

PointerInfo DescribePointer(const void* memory) {
  if (memory == nullptr) return {};
  const CudaDriver* const driver = CudaDriver::FindLoaded();
  if (driver == nullptr) return {.kind = PointerKind::kHost};
  const PointerAttributes attributes(*driver, memory);
  uint64_t type = 0;
  const int known = attributes.Ask(type, kCudaMemoryType);
  if (known != 0) return {.kind = known == kCudaInvalidValue ? PointerKind::kHost : PointerKind::kUnknown};
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
  while (pieces.back().kind == pieces.front().kind && pieces.back().bytes != 0) {
    const uint64_t end = pieces.back().base + pieces.back().bytes;
    if (end <= start || end - start >= bytes) break;
    pieces.push_back(DescribePointer(reinterpret_cast<const void*>(end)));
  }
  return pieces;
}

const char* ToString(PointerKind kind) {
  switch (kind) {
    case PointerKind::kUnknown:
      return "nobody's memory";
    case PointerKind::kHost:
      return "host memory";
    case PointerKind::kPinned:
      return "pinned host memory";
    case PointerKind::kDevice:
      return "memory of a GPU";
    case PointerKind::kVmm:
      return "memory of a GPU by cuMemCreate()";
    case PointerKind::kManaged:
      return "managed memory";
  }
  return "unknown";
}

}  // namespace warpverbs::host
