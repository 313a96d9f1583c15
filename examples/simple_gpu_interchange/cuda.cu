// The kernel on an NVIDIA GPU.
#include "../common/cuda_stream.hpp"
#include "kernel.hpp"
#include "warpverbs/arch/cuda.hpp"

using warpverbs::device::Status;

// CudaSystem suits queues and data in GPU memory and in host memory. Where all of them are in GPU memory,
// arch::Cuda is cheaper: see Endpoint::ReleaseScope().
__global__ void Kernel(Job job, Status* result) { FillAndWrite<warpverbs::arch::CudaSystem>(job, *result); }

bool HasCudaKernels() { return true; }

Status RunOnCuda(int gpu, const Job& job) {
  const CudaStream stream(gpu);
  const CudaValue<Status> result(stream, {.code = warpverbs::device::Code::kPending});
  Kernel<<<1, 128, 0, stream.get()>>>(job, result.get());
  CheckCuda(cudaGetLastError(), "launch the kernel on " + stream.gpu());
  return result.Read();
}
