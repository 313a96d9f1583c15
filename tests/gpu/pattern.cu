#include "pair.hpp"
#include "pattern.hpp"

namespace warpverbs::gpu {
namespace {

constexpr unsigned kBlocks = 64, kThreads = 256;

__device__ uint8_t PatternAt(uint64_t round, uint64_t place) {
  return static_cast<uint8_t>((place + round * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9 >> 32);
}

__global__ void Fill(uint8_t* at, uint64_t bytes, uint64_t round) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += step) at[i] = PatternAt(round, i);
}

__global__ void CountWrong(const uint8_t* at, uint64_t bytes, uint64_t round, unsigned long long* wrong) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  unsigned long long mine = 0;
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += step) {
    mine += at[i] != PatternAt(round, i);
  }
  if (mine != 0) atomicAdd_system(wrong, mine);
}

}  // namespace

void FillByKernel(int gpu, void* at, size_t bytes, uint64_t round) {
  const CudaStream stream(gpu);
  Fill<<<kBlocks, kThreads, 0, stream.get()>>>(static_cast<uint8_t*>(at), bytes, round);
  CheckCuda(cudaGetLastError(), "launch a kernel");
  stream.Wait();
}

uint64_t CountWrongByKernel(int gpu, const void* at, size_t bytes, uint64_t round) {
  const Mapped<unsigned long long> wrong{host::Gpu(gpu)};
  const CudaStream stream(gpu);
  CountWrong<<<kBlocks, kThreads, 0, stream.get()>>>(static_cast<const uint8_t*>(at), bytes, round,
                                                     wrong.get());
  CheckCuda(cudaGetLastError(), "launch a kernel");
  stream.Wait();
  return *wrong;
}

}  // namespace warpverbs::gpu
