#include "gpu_access.hpp"

#include <unistd.h>

#include "../cuda_context.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

constexpr char kPeerMemoryRemedy[] =
    "Load nvidia_peermem (modprobe nvidia_peermem), or use NVIDIA's open kernel modules on Linux 5.12 or "
    "later, which export dma-bufs";
constexpr char kSyncRemedy[] =
    "Use memory of cudaMalloc() in the GPU's primary context, or NVIDIA's open kernel modules on Linux 5.12 "
    "or later, which export dma-bufs";

/// Why memory of cuMemCreate() may be out of every NIC's reach.
std::string VmmReason(const Gpu& gpu) {
  return gpu.attributes().gpu_direct_vmm ? "; it is memory of cuMemCreate() without gpuDirectRDMACapable"
                                         : "; it is memory of cuMemCreate(), which this GPU opens to no NIC";
}

/// Makes the GPU finish synchronous copies before they return, or the NIC might read what was there before.
///
/// @source  GPUDirect RDMA 13.0, "Synchronization and Memory Ordering"
void SetSyncMemops(const CudaContext& context, const void* memory) {
  const unsigned on = 1;
  const CudaContext::Current current(context);
  context.driver().Check(context.driver().PointerSetAttribute(&on, kCudaSyncMemops, ToCuda(memory)),
                         "make copies synchronous in memory of", context.name(), kSyncRemedy);
}

}  // namespace

DmaBuf::DmaBuf(const Gpu& gpu, const void* memory, size_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t address = ToCuda(memory);
  start_ = address / page * page;
  size_ = (address + bytes + page - 1) / page * page - start_;
  const CudaContext& context = *gpu.context();
  const CudaContext::Current current(context);
  context.driver().Check(context.driver().MemGetHandleForAddressRange(&fd_, start_, size_, kCudaDmaBufFd, 0),
                         "export", std::to_string(bytes) + " bytes of memory of " + gpu.name(),
                         kPeerMemoryRemedy);
}

DmaBuf::~DmaBuf() { close(fd_); }

uint64_t DmaBuf::OffsetOf(const void* memory) const { return ToCuda(memory) - start_; }

MemoryRung Climb(const GpuLadder& ladder, const Gpu& gpu, void* memory, size_t bytes,
                 const std::string& object) {
  std::string reasons;
  try {
    ladder.by_dma_buf(DmaBuf(gpu, memory, bytes));
    return MemoryRung::kDmaBuf;
  } catch (const Error& error) {
    reasons = "by dma-buf: " + error.reason();
  }
  const char* remedy = kSyncRemedy;
  try {
    SetSyncMemops(*gpu.context(), memory);
    remedy = kPeerMemoryRemedy;
    ladder.by_address();
    return MemoryRung::kPeerMemory;
  } catch (const Error& error) {
    reasons += "; by peer memory: " + error.reason() + (ladder.is_closed_vmm ? VmmReason(gpu) : "");
    throw Error("register", object, reasons, remedy);
  }
}

}  // namespace warpverbs::host
