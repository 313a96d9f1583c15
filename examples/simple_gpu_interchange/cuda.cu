#include <deque>
#include <memory>
#include <optional>

#include "../common/cuda_team.hpp"
#include "cuda.hpp"
#include "warpverbs/arch/cuda.hpp"

__global__ void Kernel(Job job, Outcome* outcome) {
  Interchange<warpverbs::arch::CudaSystem>(CudaTeam{}, job, *outcome);  // the queues lie in host memory
}

namespace {

std::string Name(int gpu) { return "cuda:" + std::to_string(gpu); }

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

Outcome RunOnCuda(int gpu, const Job& job, bool rings, const std::vector<std::span<std::byte>>& memory) {
  const std::string name = Name(gpu);
  CheckCuda(cudaSetDevice(gpu), "use " + name);
  std::optional<CudaMapping> doorbell;
  if (rings) doorbell.emplace(job.queue.doorbell);
  std::deque<CudaMapping> mappings;
  for (const std::span<std::byte> pages : memory) mappings.emplace_back(pages);
  Outcome* on_gpu = nullptr;
  CheckCuda(cudaMalloc(&on_gpu, sizeof(Outcome)), "allocate memory on " + name);
  const std::unique_ptr<Outcome, decltype(&cudaFree)> owner(on_gpu, cudaFree);
  Outcome outcome;
  CheckCuda(cudaMemcpy(on_gpu, &outcome, sizeof(Outcome), cudaMemcpyHostToDevice), "write memory on " + name);
  Kernel<<<1, 128>>>(job, on_gpu);
  CheckCuda(cudaGetLastError(), "launch the kernel on " + name);
  CheckCuda(cudaMemcpy(&outcome, on_gpu, sizeof(Outcome), cudaMemcpyDeviceToHost),
            "run the kernel on " + name);
  return outcome;
}
