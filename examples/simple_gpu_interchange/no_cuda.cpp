// Takes the place of cuda.cu in a build without CUDA. main() does not get as far as to run a kernel.
#include <stdexcept>

#include "kernel.hpp"

bool HasCudaKernels() { return false; }

warpverbs::device::Status RunOnCuda(int, const Job&) { throw std::logic_error("built without CUDA"); }
