#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace warpverbs::bench {

/// Exits with an error message if a CUDA call failed.
inline void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "Cannot %s: %s.\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// Describes the GPU, the driver and the compiler that all figures belong to.
inline std::string GpuText(int gpu) {
  cudaDeviceProp properties{};
  int clock_khz = 0, driver = 0;
  Check(cudaGetDeviceProperties(&properties, gpu), "use a GPU");
  Check(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, gpu), "read the clock rate");
  Check(cudaDriverGetVersion(&driver), "read the driver's version");
  char text[512];
  std::snprintf(text, sizeof text, "%s, at most %d MHz, CUDA %d.%d in the driver; nvcc %d.%d.%d",
                properties.name, clock_khz / 1000, driver / 1000, driver % 1000 / 10, __CUDACC_VER_MAJOR__,
                __CUDACC_VER_MINOR__, __CUDACC_VER_BUILD__);
  return text;
}

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace warpverbs::bench
