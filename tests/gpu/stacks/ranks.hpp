#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

/// What the programs of two ranks share: each rank is a process with a GPU of its own, if the machine has
/// two.
namespace stacks {

/// Ends the process with a message if a call of CUDA failed.
inline void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// Makes the rank's GPU the current one.
inline void UseGpu(int rank) {
  int gpus = 0;
  Check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
  Check(cudaSetDevice(rank % gpus), "cudaSetDevice");
}

/// Gives rank 0's value to both ranks through a file, which must not exist before. Rank 1 waits up to 30 s
/// for it.
template <class T>
T Share(int rank, const std::string& path, const T& own) {
  T value = own;
  if (rank == 0) {
    std::FILE* const file = std::fopen((path + ".part").c_str(), "wb");
    const bool written = file != nullptr && std::fwrite(&value, sizeof value, 1, file) == 1;
    if (file != nullptr) std::fclose(file);
    if (written && std::rename((path + ".part").c_str(), path.c_str()) == 0) return value;
  }
  for (int i = 0; rank != 0 && i < 3000; ++i) {
    if (std::FILE* const file = std::fopen(path.c_str(), "rb")) {
      const bool read = std::fread(&value, sizeof value, 1, file) == 1;
      std::fclose(file);
      if (read) return value;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::fprintf(stderr, "Cannot share a value by the file %s\n", path.c_str());
  std::exit(1);
}

}  // namespace stacks
