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

/// Bytes that shall all have the value.
struct Stretch {
  const uint8_t* bytes;
  uint64_t count;
  uint8_t value;
};

__global__ void CountKernel(Stretch stretch, uint64_t* right) {
  CountRight<warpverbs::arch::Cuda>(CudaTeam{}, stretch.bytes, stretch.count, stretch.value, *right);
}

namespace {

constexpr int kThreads = 128;

/// Runs a kernel and waits for it as others should: on a stream and an event of its own, asleep in the
/// driver.
///
/// @return  what the kernel left in its last parameter
template <class Result, class Job>
Result Launch(void (*kernel)(Job, Result*), int gpu, const Job& job) {
  const CudaStream stream(gpu);
  const CudaValue<Result> result(stream, Result{});
  kernel<<<1, kThreads, 0, stream.get()>>>(job, result.get());
  CheckCuda(cudaGetLastError(), "launch the kernel on " + stream.gpu());
  return result.Read();
}

}  // namespace

void RequireCuda() {}

Outcome RunOnCuda(int gpu, Scope scope, const Job& job) {
  auto* const kernel = scope == Scope::kGpu ? Kernel<Scope::kGpu> : Kernel<Scope::kSystem>;
  return Launch(kernel, gpu, job);
}

Report RunOnCuda(int gpu, Scope scope, const Conversation& job) {
  auto* const kernel = scope == Scope::kGpu ? ConverseKernel<Scope::kGpu> : ConverseKernel<Scope::kSystem>;
  return Launch(kernel, gpu, job);
}

uint64_t CountOnCuda(int gpu, const uint8_t* bytes, uint64_t count, uint8_t value) {
  return Launch(CountKernel, gpu, Stretch{bytes, count, value});
}

bool EnablePeerAccess(int from, int to) {
  int can = 0;
  CheckCuda(cudaSetDevice(from), "use cuda:" + std::to_string(from));
  CheckCuda(cudaDeviceCanAccessPeer(&can, from, to), "ask for peer access");
  if (!can) return false;
  const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled) CheckCuda(error, "enable peer access");
  return true;
}
