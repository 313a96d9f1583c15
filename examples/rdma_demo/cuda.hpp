// Kernels for NVIDIA GPUs, which this program may or may not have been built with.
#pragma once

#include <chrono>

#include "kernel.hpp"

namespace rdma_demo {

bool HasCudaKernels();

/// Runs Double() on a GPU, and returns when it is done. Throws std::runtime_error if it cannot, or if it is
/// not done in time: then it may still run.
///
/// @param job  arrays of that GPU's memory
void DoubleOnCuda(int gpu, const DoubleJob& job, std::chrono::steady_clock::time_point deadline);

}  // namespace rdma_demo
