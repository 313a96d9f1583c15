#include "memory/gpu_access.hpp"

#include <cerrno>

#include "gpu/cuda_context.hpp"
#include "gpu/hip_runtime.hpp"
#include "log/log.hpp"
#include "memory/locked_memory.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr char kSyncRemedy[] =
    "Use memory of cudaMalloc() in the GPU's primary context, or NVIDIA's open kernel modules on Linux 5.12 "
    "or later, which export dma-bufs";

/// Says whether memory comes from a pool, as that of cudaMallocAsync().
bool IsOfPool(const CudaDriver& driver, const void* memory) {
  CudaAddress pool = 0;
  return driver.PointerGetAttribute(&pool, kCudaPoolHandle, ToCuda(memory)) == 0 && pool != 0;
}

/// Says whether memory may be another process's, which this one has opened by IPC. Neither that nor memory
/// of a pool has an IPC handle.
bool MayBeAnothersMemory(const CudaDriver& driver, const void* memory, const PointerInfo& pointer) {
  return pointer.kind == PointerKind::kDevice && !pointer.ipc && !IsOfPool(driver, memory);
}

/// Returns why a NIC may be unable to reach memory that other code allocated, or nothing.
std::string FurtherReason(const Gpu& gpu, const void* memory, const PointerInfo& pointer) {
  if (MayBeAnothersMemory(gpu.context()->driver(), memory, pointer)) {
    return "; it has no IPC handle of its own, so another process may have allocated it; only that process "
           "can register it or export a dma-buf of it";
  }
  if (pointer.kind != PointerKind::kVmm || pointer.gpu_direct) return "";
  return gpu.attributes().gpu_direct_vmm
             ? "; it is memory of cuMemCreate() without gpuDirectRDMACapable"
             : "; it is memory of cuMemCreate(), which this GPU does not expose to NICs";
}

/// Makes the GPU finish synchronous copies before they return. Otherwise the NIC might read old data.
///
/// A driver may refuse this for memory of another process: its owner decides there.
///
/// @source  GPUDirect RDMA 13.0, "Synchronization and Memory Ordering"
void SetSyncMemops(const CudaContext& context, const void* memory, const PointerInfo& pointer) {
  const unsigned on = 1;
  const CudaContext::Current current(context);
  const CudaDriver& driver = context.driver();
  const int result = driver.PointerSetAttribute(&on, kCudaSyncMemops, ToCuda(memory));
  const bool is_refused = result == kCudaInvalidValue || result == kCudaNotSupported;
  if (is_refused && MayBeAnothersMemory(driver, memory, pointer)) return;
  driver.Check(result, "make copies synchronous in memory of", context.name(), kSyncRemedy);
}

/// Both ways to register, without knowledge of the vendor.
struct RegistrationWays {
  std::function<void()> by_dma_buf, by_address;
  const char* remedy;          ///< remedy if both fail; by_address may replace it
  std::string further_reason;  ///< further reason why a NIC may not reach the memory
};

RegistrationMethod TryBoth(const RegistrationWays& ways, const std::string& object) {
  std::string reasons;
  int by_dma_buf = 0;
  try {
    ways.by_dma_buf();
    return RegistrationMethod::kDmaBuf;
  } catch (const Error& error) {
    reasons = "by dma-buf: " + error.reason();
    by_dma_buf = error.error_number();
  }
  try {
    ways.by_address();
    Log(LogLevel::kInfo, [&] { return object + ": a NIC reaches it by peer memory; " + reasons; });
    return RegistrationMethod::kPeerMemory;
  } catch (const Error& error) {
    reasons += "; by peer memory: " + error.reason() + ways.further_reason;
    const bool too_much = error.error_number() == ENOMEM;
    // Both ways failed. A shortage is reported first: it is the one that the caller can do something about.
    throw Error("register", object, reasons, too_much ? PinningRemedy(ENOMEM) : ways.remedy,
                IsOutOfResources(by_dma_buf) ? by_dma_buf : error.error_number());
  }
}

}  // namespace

RegistrationMethod RegisterGpuMemory(const GpuRegistration& registration, const Gpu& gpu, void* memory,
                                     size_t bytes, const std::string& object) {
  RegistrationWays ways{
      .by_dma_buf =
          [&] { registration.by_dma_buf(DmaBuf(gpu, memory, bytes, {.over_pcie = registration.over_pcie})); },
      .by_address =
          [&] {
            SetSyncMemops(*gpu.context(), memory, registration.pointer);
            ways.remedy = registration.over_pcie ? kPcieRemedy : kPeerMemoryRemedy;
            registration.by_address();
          },
      .remedy = kSyncRemedy,
      .further_reason = FurtherReason(gpu, memory, registration.pointer)};
  return TryBoth(ways, object);
}

RegistrationMethod RegisterHipMemory(const GpuRegistration& registration, void* memory, size_t bytes,
                                     const std::string& object) {
  const auto by_dma_buf = [&] {
    const std::string gpu = "hip:" + std::to_string(registration.pointer.ordinal);
    registration.by_dma_buf(HipRuntime::Load().Export(memory, bytes, gpu));
  };
  return TryBoth({by_dma_buf, registration.by_address, kPeerDirectRemedy, ""}, object);
}

}  // namespace warpverbs::inline v0_2::host
