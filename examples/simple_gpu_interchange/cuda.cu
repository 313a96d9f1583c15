#include "../common/cuda_team.hpp"
#include "cuda.hpp"
#include "warpverbs/arch/cuda.hpp"

using warpverbs::arch::Scope;

template <Scope kScope>
__global__ void Kernel(Job job, Outcome* outcome) {
  Interchange<warpverbs::arch::BasicCuda<kScope>>(CudaTeam{}, job, *outcome);
}

template <Scope kScope>
__global__ void ConverseKernel(Conversation job, Report* report) {
  Converse<warpverbs::arch::BasicCuda<kScope>>(CudaTeam{}, job, *report);
}

namespace {

/// Runs a kernel and waits for it as others should: on a stream and an event of its own, asleep in the
/// driver.
template <class Result, class Job>
Result Launch(void (*kernel)(Job, Result*), int gpu, const Job& job) {
  const CudaStream stream(gpu);
  Result result;
  const CudaValue<Result> on_gpu(stream, result);
  kernel<<<1, 128, 0, stream.get()>>>(job, on_gpu.get());
  CheckCuda(cudaGetLastError(), "launch the kernel on " + stream.gpu());
  result = on_gpu.Read();
  return result;
}

}  // namespace

void RequireCuda() {}

Outcome RunOnCuda(int gpu, Scope scope, const Job& job) {
  return Launch(scope == Scope::kGpu ? Kernel<Scope::kGpu> : Kernel<Scope::kSystem>, gpu, job);
}

Report RunOnCuda(int gpu, Scope scope, const Conversation& job) {
  return Launch(scope == Scope::kGpu ? ConverseKernel<Scope::kGpu> : ConverseKernel<Scope::kSystem>, gpu,
                job);
}
