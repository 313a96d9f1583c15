#include <deque>
#include <memory>

#include "../common/cuda_team.hpp"
#include "cuda.hpp"
#include "warpverbs/arch/cuda.hpp"

__global__ void Kernel(Job job, Outcome* outcome) {
  Interchange<warpverbs::arch::CudaSystem>(CudaTeam{}, job, *outcome);  // the queues lie in host memory
}

Outcome RunOnCuda(int gpu, const Job& job, const std::vector<std::span<std::byte>>& memory) {
  const std::string name = "cuda:" + std::to_string(gpu);
  CheckCuda(cudaSetDevice(gpu), "use " + name);
  const CudaMapping doorbell(job.queue.doorbell);
  std::deque<CudaMapping> mappings;
  for (const std::span<std::byte> pages : memory) mappings.emplace_back(pages);
  Outcome* shared = nullptr;
  CheckCuda(cudaMallocManaged(&shared, sizeof(Outcome)), "allocate memory on " + name);
  const std::unique_ptr<Outcome, decltype(&cudaFree)> outcome(new (shared) Outcome{}, cudaFree);
  Kernel<<<1, 128>>>(job, shared);
  CheckCuda(cudaDeviceSynchronize(), "run the kernel on " + name);
  return *outcome;
}
