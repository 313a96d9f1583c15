#include "driver.hpp"

#include <sys/mman.h>

#include <atomic>
#include <vector>

#include "fake_cuda.hpp"
#include "settings.hpp"

using fake_cuda::Failure;

namespace fake_cuda {
namespace {

thread_local std::vector<CUctx_st*> context_stack;

}  // namespace

Driver& TheDriver() {
  static auto* const driver = new Driver;  // never destroyed: threads may call until the program ends
  return *driver;
}

Driver::Driver() {
  for (int gpu = 0; gpu < kMaxGpus; ++gpu) contexts[gpu] = &all_contexts.emplace_back(CUctx_st{.gpu = gpu});
}

DeviceMemory& Driver::MemoryOf(int gpu) {
  if (!memory[gpu])
    memory[gpu] = std::make_unique<DeviceMemory>(gpu, size_t(Get().megabytes) << 20, kernels > 0);
  return *memory[gpu];
}

Range* Driver::Find(Address address) {
  if (Range* const range = FindIn(mapped, address)) return range;
  if (Range* const range = FindIn(imported, address)) return range;
  Range* const range = FindRange(address);
  return range == nullptr || range->reserved || range->imported ? nullptr : range;
}

DeviceMemory* Driver::Covering(Address address) {
  for (const auto& on_gpu : memory) {
    if (on_gpu && on_gpu->Covers(address)) return on_gpu.get();
  }
  return nullptr;
}

Range* Driver::FindRange(Address address) {
  for (const auto& on_gpu : memory) {
    Range* const range = on_gpu ? on_gpu->Find(address) : nullptr;
    if (range != nullptr) return range;
  }
  return nullptr;
}

Range* FindIn(std::map<Address, Range>& ranges, Address address) {
  const auto next = ranges.upper_bound(address);
  if (next == ranges.begin()) return nullptr;
  Range& range = std::prev(next)->second;
  return range.Has(address, 1) ? &range : nullptr;
}

CUctx_st* Current(const char* function) {
  if (context_stack.empty()) Abort(function, "no context is current");
  if (std::atomic_ref(context_stack.back()->references).load() == 0)
    Abort(function, "the current context is destroyed");
  return context_stack.back();
}

void CheckStream(const char* function, const CUstream_st* stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= 2)
    Abort(function, "the legacy stream waits for the whole program");
  if (stream->context != Current(function)) Abort(function, "the stream is of another context");
}

std::byte* ReachRange(const char* function, Address address, size_t bytes) {
  Driver& driver = TheDriver();
  const Range* const range = driver.Find(address);
  if (range == nullptr) Abort(function, "no GPU memory is at the address");
  if (!range->Has(address, bytes)) Abort(function, "the range leaves its allocation");
  return driver.Covering(address)->Reach(address);
}

bool IsGone(Address address) { return Get().gone_is_error != 0 && TheDriver().Find(address) == nullptr; }

void Configure(const std::string& settings) {
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  for (auto& memory : driver.memory) {
    if (memory && memory->allocations() != 0) Abort("Configure", "the program still holds memory");
    memory.reset();
  }
  Set(settings);
}

Held HeldNow() {
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  Held held{.registrations = static_cast<int>(driver.registered.size()),
            .streams = driver.streams,
            .events = driver.events};
  for (const auto& memory : driver.memory) {
    if (memory) held.allocations += static_cast<int>(memory->allocations());
  }
  held.allocations += static_cast<int>(driver.managed.size() + driver.physical.size());
  for (const CUctx_st* const context : driver.contexts) held.contexts += context->references;
  return held;
}

Kernel::Kernel() {
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  if (driver.kernels++ > 0) return;
  for (const auto& memory : driver.memory) {
    if (memory) memory->LetTouch(true);
  }
}

Kernel::~Kernel() {
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  if (--driver.kernels > 0) return;
  for (const auto& memory : driver.memory) {
    if (memory) memory->LetTouch(false);
  }
}

void ResetGpu(int gpu) {
  Driver& driver = TheDriver();
  const std::lock_guard lock(driver.mutex);
  CUctx_st*& context = driver.contexts[gpu];
  context->reset = true;
  context = &driver.all_contexts.emplace_back(CUctx_st{.gpu = gpu, .references = context->references});
  std::erase_if(driver.registered, [gpu](const auto& entry) {
    const Range& range = entry.second;
    const bool gone = range.gpu == gpu && range.pinned;
    if (gone) mprotect(reinterpret_cast<void*>(range.start), range.bytes, PROT_NONE);
    return gone;
  });
}

int StreamFlushes() { return TheDriver().stream_flushes; }

int PcieExports() {
  const std::lock_guard lock(TheDriver().mutex);
  return TheDriver().pcie_exports;
}

size_t ContextDepth() { return context_stack.size(); }

std::byte* Reach(const void* device_memory, size_t bytes) {
  const std::lock_guard lock(TheDriver().mutex);
  return ReachRange("Reach", reinterpret_cast<Address>(device_memory), bytes);
}

bool HasSyncMemops(const void* device_memory) {
  const std::lock_guard lock(TheDriver().mutex);
  const Range* const range = TheDriver().Find(reinterpret_cast<Address>(device_memory));
  if (range == nullptr) Abort("HasSyncMemops", "no GPU memory is at the address");
  return range->sync_memops;
}

}  // namespace fake_cuda

using namespace fake_cuda;

// Devices and contexts. Prototypes and constants are those of the CUDA driver API 13.0.
extern "C" {

int cuInit(unsigned) {
  if (const int failure = Failure(__func__)) return failure;
  if (Get().gpus == 0) return kNoDevice;
  const std::lock_guard lock(TheDriver().mutex);
  TheDriver().initialised = true;
  return kSuccess;
}

int cuDriverGetVersion(int* version) {
  if (const int failure = Failure(__func__)) return failure;
  *version = Get().version;
  return kSuccess;
}

int cuGetErrorName(int result, const char** name) {
  switch (result) {
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      break;
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      break;
    case kNoDevice:
      *name = "CUDA_ERROR_NO_DEVICE";
      break;
    case kNotPermitted:
      *name = "CUDA_ERROR_NOT_PERMITTED";
      break;
    case kNotSupported:
      *name = "CUDA_ERROR_NOT_SUPPORTED";
      break;
    case kAlreadyRegistered:
      *name = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED";
      break;
    default:
      *name = "CUDA_ERROR_UNKNOWN";
  }
  return kSuccess;
}

int cuGetErrorString(int result, const char** text) {
  *text = result == kOutOfMemory ? "out of memory" : "the fake driver refuses";
  return kSuccess;
}

int cuDeviceGetCount(int* count) {
  if (const int failure = Failure(__func__)) return failure;
  if (!TheDriver().initialised) return kNotInitialized;
  *count = Get().gpus;
  return kSuccess;
}

int cuDeviceGet(int* device, int ordinal) {
  if (const int failure = Failure(__func__)) return failure;
  if (ordinal < 0 || ordinal >= Get().gpus || ordinal >= kMaxGpus) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

int cuDeviceGetName(char* name, int bytes, int) {
  if (const int failure = Failure(__func__)) return failure;
  std::snprintf(name, static_cast<size_t>(bytes), "Fake GPU");
  return kSuccess;
}

int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  if (const int failure = Failure(__func__)) return failure;
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02X:00.0", 0x41 + device);
  return kSuccess;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  if (const int failure = Failure(__func__)) return failure;
  switch (attribute) {
    case 18:  // CU_DEVICE_ATTRIBUTE_INTEGRATED
      *value = Get().integrated;
      return kSuccess;
    case 110:  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
      *value = Get().vmm;
      return kSuccess;
    case 116:  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED
      *value = Get().gpu_direct;
      return kSuccess;
    case 117:  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS
      *value = Get().flush;
      return kSuccess;
    case 118:  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING
      *value = Get().writes_ordering;
      return kSuccess;
    case 124:  // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
      *value = Get().dma_buf;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

int cuDevicePrimaryCtxRetain(CUctx_st** context, int device) {
  if (const int failure = Failure(__func__)) return failure;
  const std::lock_guard lock(TheDriver().mutex);
  *context = TheDriver().contexts[device];
  ++std::atomic_ref((*context)->references);  // readers may not hold the lock
  return kSuccess;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  const std::lock_guard lock(TheDriver().mutex);
  CUctx_st& context = *TheDriver().contexts[device];
  if (context.references == 0) Abort(__func__, "the context was never retained");
  --std::atomic_ref(context.references);
  return kSuccess;
}

int cuCtxPushCurrent_v2(CUctx_st* context) {
  constexpr bool kGivesBack = true;  // release paths call it first
  if (const int failure = Failure(__func__, kGivesBack)) return failure;
  const std::lock_guard lock(TheDriver().mutex);
  if (context->reset) return kContextIsDestroyed;
  context_stack.push_back(context);
  return kSuccess;
}

int cuCtxPopCurrent_v2(CUctx_st** context) {
  if (context_stack.empty()) Abort(__func__, "there is nothing to pop");
  if (context != nullptr) *context = context_stack.back();
  context_stack.pop_back();
  return kSuccess;
}

int cuCtxGetCurrent(CUctx_st** context) {
  *context = context_stack.empty() ? nullptr : context_stack.back();
  return kSuccess;
}

}  // extern "C"
