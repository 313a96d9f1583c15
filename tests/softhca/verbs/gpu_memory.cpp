#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "fake_cuda.hpp"
#include "verbs/memory.hpp"

// Prototypes as of the CUDA driver API.
extern "C" {
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(struct CUctx_st** context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxPushCurrent_v2(struct CUctx_st* context);
int cuCtxPopCurrent_v2(struct CUctx_st** context);
int cuMemAlloc_v2(uint64_t* address, size_t bytes);
int cuMemFree_v2(uint64_t address);
}

namespace verbs {
namespace {

constexpr int kGpus = 2;
[[maybe_unused]] const int kConfigured = setenv("WARPVERBS_FAKE_CUDA", "gpus=2", 0);

/// A context of a GPU, current as long as it lives. Those of a test take turns, so that its memory lies on
/// all of them.
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

int NextGpu() {
  static int allocated = 0;
  return allocated++ % kGpus;
}

}  // namespace

Memory::Memory(size_t bytes) : bytes_(bytes) {
  const Current current(NextGpu());
  if (cuMemAlloc_v2(&address_, bytes) != 0) throw std::runtime_error("no memory on the GPU");
  data_ = reinterpret_cast<uint8_t*>(fake_cuda::Reach(pointer(), bytes));
  std::memset(data_, 0, bytes);
}

Memory::~Memory() {
  const Current current(0);
  cuMemFree_v2(address_);
}

}  // namespace verbs
