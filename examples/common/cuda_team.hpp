// What a kernel on an NVIDIA GPU needs: its block of threads, and host memory that it may touch.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "warpverbs/mlx5/doorbell.hpp"

/// The calling thread's block.
struct CudaTeam {
  __device__ uint32_t Rank() const { return threadIdx.x; }
  __device__ uint32_t Size() const { return blockDim.x; }
  __device__ void Sync() const { __syncthreads(); }
};

inline void CheckCuda(cudaError_t error, const std::string& step) {
  if (error != cudaSuccess)
    throw std::runtime_error("Cannot " + step + ": " + cudaGetErrorString(error) + ".");
}

/// Host memory that the GPU may touch at its own address, while this lives.
class CudaMapping {
 public:
  explicit CudaMapping(std::span<std::byte> pages) : memory_(pages.data()) {
    CheckCuda(cudaHostRegister(memory_, pages.size(), cudaHostRegisterMapped),
              "map host memory into the GPU");
  }

  /// The page around a doorbell register: I/O memory of a ConnectX, ordinary memory of the software HCA.
  explicit CudaMapping(uint64_t* doorbell) {
    constexpr uintptr_t kPageBytes = warpverbs::mlx5::kUarPageBytes;
    memory_ = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(doorbell) / kPageBytes * kPageBytes);
    if (cudaHostRegister(memory_, kPageBytes, cudaHostRegisterIoMemory) == cudaSuccess) return;
    CheckCuda(cudaHostRegister(memory_, kPageBytes, cudaHostRegisterMapped),
              "map the doorbell into the GPU (run as root, or load nvidia with PeerMappingOverride=1)");
  }

  ~CudaMapping() { cudaHostUnregister(memory_); }
  CudaMapping(const CudaMapping&) = delete;
  CudaMapping& operator=(const CudaMapping&) = delete;

 private:
  void* memory_;
};
