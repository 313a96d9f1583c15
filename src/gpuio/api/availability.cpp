#include "gpuio/api/availability.hpp"

#include <exception>

#include "gpuio/control/log.hpp"
#include "warpverbs/gpuio/hf3fs_usrbio_gdr.h"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/transport/memory.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

namespace warpverbs::inline v0_2::gpuio {

#ifdef HF3FS_GDR_ENABLED

namespace {

bool TryGpuMemory() {
  if (host::Gpu::Count() == 0) {
    Log(LogLevel::kInfo, "no buffers in GPU memory: there is no GPU");
    return false;
  }
  if (!transport::RdmaTransport::Supported()) {
    Log(LogLevel::kInfo, "no buffers in GPU memory: no ConnectX has an active port");
    return false;
  }
  const host::GpuMemory memory(host::Gpu(0), host::GpuMemory::kPageBytes);
  const transport::RdmaMemory registered(memory.data(), memory.size(), 0);
  return true;
}

}  // namespace

bool IsGpuMemoryAvailable() noexcept {
  static const bool available = [] {
    try {
      return TryGpuMemory();
    } catch (const std::exception& error) {
      Log(LogLevel::kWarn, error.what());
      return false;
    }
  }();
  return available;
}

#else

bool IsGpuMemoryAvailable() noexcept { return false; }

#endif

}  // namespace warpverbs::inline v0_2::gpuio

extern "C" {

bool hf3fs_gdr_available(void) { return warpverbs::gpuio::IsGpuMemoryAvailable(); }

int hf3fs_gdr_device_count(void) {
  return warpverbs::gpuio::IsGpuMemoryAvailable() ? warpverbs::host::Gpu::Count() : 0;
}

}  // extern "C"
