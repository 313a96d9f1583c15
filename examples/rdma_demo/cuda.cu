// The kernel on an NVIDIA GPU.
#include "../common/cuda_stream.hpp"
#include "kernel.hpp"

namespace rdma_demo {
namespace {

__global__ void DoubleKernel(DoubleJob job) {
  Double(uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x, job);
}

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
