#include <deque>
#include <memory>
#include <optional>

#include "../common/cuda_team.hpp"
#include "cuda.hpp"
#include "warpverbs/arch/cuda.hpp"

__global__ void Kernel(Job job, Outcome* outcome) {
  Interchange<warpverbs::arch::CudaSystem>(CudaTeam{}, job, *outcome);  // the queues lie in host memory
}

__global__ void ConverseKernel(Conversation job, Report* report) {
  Converse<warpverbs::arch::CudaSystem>(CudaTeam{}, job, *report);
}

namespace {

using Memory = std::vector<std::span<std::byte>>;

std::string Name(int gpu) { return "cuda:" + std::to_string(gpu); }

template <class Result, class Job>
Result Launch(void (*kernel)(Job, Result*), int gpu, const Job& job, bool rings, const Memory& memory) {
  const std::string name = Name(gpu);
  CheckCuda(cudaSetDevice(gpu), "use " + name);
  std::optional<CudaMapping> doorbell;
  if (rings) doorbell.emplace(job.queue.doorbell);
  std::deque<CudaMapping> mappings;
  for (const std::span<std::byte> pages : memory) mappings.emplace_back(pages);
  Result* on_gpu = nullptr;
  CheckCuda(cudaMalloc(&on_gpu, sizeof(Result)), "allocate memory on " + name);
  const std::unique_ptr<Result, decltype(&cudaFree)> owner(on_gpu, cudaFree);
  Result result;
  CheckCuda(cudaMemcpy(on_gpu, &result, sizeof(Result), cudaMemcpyHostToDevice), "write memory on " + name);
  kernel<<<1, 128>>>(job, on_gpu);
  CheckCuda(cudaGetLastError(), "launch the kernel on " + name);
  CheckCuda(cudaMemcpy(&result, on_gpu, sizeof(Result), cudaMemcpyDeviceToHost), "run the kernel on " + name);
  return result;
}

}  // namespace

bool CanRing(int gpu, uint64_t* doorbell) {
  CheckCuda(cudaSetDevice(gpu), "use " + Name(gpu));
  try {
    const CudaMapping mapping(doorbell);
    return true;
  } catch (const std::runtime_error&) {
    cudaGetLastError();  // forget the failure, or the launch would seem to have failed
    return false;
  }
}

Outcome RunOnCuda(int gpu, const Job& job, bool rings, const Memory& memory) {
  return Launch(Kernel, gpu, job, rings, memory);
}

Report RunOnCuda(int gpu, const Conversation& job, bool rings, const Memory& memory) {
  return Launch(ConverseKernel, gpu, job, rings, memory);
}
