// The kernel on an NVIDIA GPU.
#include "../common/cuda_stream.hpp"
#include "kernel.hpp"
#include "warpverbs/arch/cuda.hpp"

using warpverbs::arch::Scope;

template <Scope kScope>
__global__ void Kernel(Job job, Report* report) {
  RunRounds<warpverbs::arch::BasicCuda<kScope>>(job, *report);
}

bool HasCudaKernels() { return true; }

Report RunOnCuda(int gpu, Scope scope, const Job& job) {
  const CudaStream stream(gpu);
  const CudaValue<Report> report(stream, Report{});
  auto* const kernel = scope == Scope::kGpu ? Kernel<Scope::kGpu> : Kernel<Scope::kSystem>;
  kernel<<<1, 128, 0, stream.get()>>>(job, report.get());
  CheckCuda(cudaGetLastError(), "launch the kernel on " + stream.gpu());
  return report.Read();
}
