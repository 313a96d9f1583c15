#include "verbs/gpu_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "fake_cuda.hpp"
#include "verbs/memory.hpp"

// Prototypes of the CUDA driver API.
extern "C" {
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(struct CUctx_st** context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxPushCurrent_v2(struct CUctx_st* context);
int cuCtxPopCurrent_v2(struct CUctx_st** context);
int cuMemAlloc_v2(uint64_t* address, size_t bytes);
int cuMemFree_v2(uint64_t address);
int cuMemGetHandleForAddressRange(void* handle, uint64_t address, size_t bytes, int type,
                                  unsigned long long flags);
}

namespace verbs {
namespace {

constexpr int kGpus = 2;
[[maybe_unused]] const int kConfigured = setenv("WARPVERBS_FAKE_CUDA", "gpus=2", 0);

/// Makes the context of a GPU current while it lives.
class Current {
 public:
  explicit Current(int gpu) : gpu_(gpu) {
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context_, gpu) != 0) throw std::runtime_error("no GPU");
    cuCtxPushCurrent_v2(context_);
  }
  ~Current() {
    cuCtxPopCurrent_v2(&context_);
    cuDevicePrimaryCtxRelease_v2(gpu_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int gpu_;
  struct CUctx_st* context_ = nullptr;
};

/// Spreads the memory of a test over all GPUs.
int NextGpu() {
  static int allocated = 0;
  return allocated++ % kGpus;
}

}  // namespace

GpuMemory::GpuMemory(int gpu, size_t bytes) : gpu_(gpu) {
  const Current current(gpu);
  if (cuMemAlloc_v2(&address_, bytes) != 0) throw std::runtime_error("no memory on the GPU");
  data_ = reinterpret_cast<uint8_t*>(fake_cuda::Reach(pointer(), bytes));
  std::memset(data_, 0, bytes);
}

void GpuMemory::Free() {
  if (data_ == nullptr) return;
  const Current current(gpu_);
  cuMemFree_v2(address_);
  data_ = nullptr;
}

int GpuMemory::Export(size_t bytes) const {
  constexpr int kDmaBuf = 1;
  const Current current(gpu_);
  int fd = -1;
  if (cuMemGetHandleForAddressRange(&fd, address_, bytes, kDmaBuf, 0) != 0)
    throw std::runtime_error("no export");
  return fd;
}

struct Memory::Owner {
  GpuMemory memory;
};

Memory::Memory(size_t bytes) : bytes_(bytes), owner_(new Owner{{NextGpu(), bytes}}) {
  address_ = owner_->memory.address();
  data_ = owner_->memory.data();
}

Memory::~Memory() = default;

}  // namespace verbs
