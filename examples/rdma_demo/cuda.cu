#include "../common/cuda_team.hpp"
#include "cuda.hpp"

namespace rdma_demo {
namespace {

/// Threads of many blocks as one team.
struct CudaGrid {
  __device__ uint64_t Rank() const { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
  __device__ uint64_t Size() const { return uint64_t{gridDim.x} * blockDim.x; }
};

__global__ void DoubleKernel(DoubleJob job) { Double(CudaGrid{}, job); }

}  // namespace

bool HasCudaKernels() { return true; }

void DoubleOnCuda(int gpu, const DoubleJob& job, std::chrono::steady_clock::time_point deadline) {
  constexpr int kBlocks = 64, kThreads = 256;
  const CudaStream stream(gpu);
  DoubleKernel<<<kBlocks, kThreads, 0, stream.get()>>>(job);
  CheckCuda(cudaGetLastError(), "launch the kernel on " + stream.gpu());
  stream.WaitUntil(deadline);
}

}  // namespace rdma_demo
