// Takes the place of cuda.cu in a build without CUDA.
#include <stdexcept>

#include "kernel.hpp"

namespace rdma_demo {

bool HasCudaKernels() { return false; }

void DoubleOnCuda(int, const DoubleJob&, std::chrono::steady_clock::time_point) {
  throw std::runtime_error(
      "Cannot run a kernel: this program was built without CUDA. Configure it with -DWARPVERBS_CUDA=ON.");
}

}  // namespace rdma_demo
