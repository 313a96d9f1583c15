// The pattern on an NVIDIA GPU.
#include "../common/cuda_stream.hpp"
#include "pattern.hpp"

namespace {

constexpr int kBlocks = 256, kThreads = 256;

__global__ void Fill(std::byte* memory, size_t bytes, uint64_t seed) {
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < bytes; i += size_t{kBlocks} * kThreads)
    memory[i] = static_cast<std::byte>(PatternByte(seed, i));
}

__global__ void CountWrong(const std::byte* memory, size_t bytes, uint64_t seed, unsigned long long* wrong) {
  unsigned long long mine = 0;
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < bytes; i += size_t{kBlocks} * kThreads)
    mine += memory[i] == static_cast<std::byte>(PatternByte(seed, i)) ? 0 : 1;
  if (mine != 0) atomicAdd(wrong, mine);
}

}  // namespace

bool HasPatternKernels() { return true; }

void FillByKernel(int gpu, std::byte* memory, size_t bytes, uint64_t seed) {
  const CudaStream stream(gpu);
  Fill<<<kBlocks, kThreads, 0, stream.get()>>>(memory, bytes, seed);
  CheckCuda(cudaGetLastError(), "launch a kernel on " + stream.gpu());
  stream.Wait();
}

size_t CountWrongByKernel(int gpu, const std::byte* memory, size_t bytes, uint64_t seed) {
  const CudaStream stream(gpu);
  const CudaValue<unsigned long long> wrong(stream, 0);
  CountWrong<<<kBlocks, kThreads, 0, stream.get()>>>(memory, bytes, seed, wrong.get());
  CheckCuda(cudaGetLastError(), "launch a kernel on " + stream.gpu());
  return static_cast<size_t>(wrong.Read());
}
