// What a kernel on an NVIDIA GPU needs: its block of threads, and host memory that it may touch.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
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
  explicit CudaMapping(std::span<std::byte> pages) {
    CheckCuda(cudaHostRegister(pages.data(), pages.size(), cudaHostRegisterMapped),
              "map host memory into the GPU");
    Own(pages.data());
  }

  /// The page around a doorbell register: I/O memory of a ConnectX, ordinary memory of the software HCA.
  explicit CudaMapping(uint64_t* doorbell) {
    constexpr uintptr_t kPageBytes = warpverbs::mlx5::kUarPageBytes;
    auto* const page =
        reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(doorbell) / kPageBytes * kPageBytes);
    if (cudaHostRegister(page, kPageBytes, cudaHostRegisterIoMemory) != cudaSuccess) {
      cudaGetLastError();  // forget the failure, or the launch would seem to have failed
      CheckCuda(cudaHostRegister(page, kPageBytes, cudaHostRegisterMapped),
                "map the doorbell into the GPU (run as root, or load nvidia with PeerMappingOverride=1)");
    }
    Own(page);
  }

 private:
  struct Unregister {
    void operator()(void* memory) const { cudaHostUnregister(memory); }
  };

  void Own(void* memory) {
    memory_.reset(memory);
    void* on_gpu = nullptr;
    CheckCuda(cudaHostGetDevicePointer(&on_gpu, memory, 0), "find mapped memory on the GPU");
    if (on_gpu != memory) {
      throw std::runtime_error(
          "Cannot use host memory on this GPU: it sees it at another address. "
          "Use a GPU and a driver with unified addressing.");
    }
  }

  std::unique_ptr<void, Unregister> memory_;
};
