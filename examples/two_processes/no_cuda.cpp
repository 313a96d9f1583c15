// Takes the place of cuda.cu in a build without CUDA. main() does not get as far as to run a kernel.
#include <stdexcept>

#include "kernel.hpp"

bool HasCudaKernels() { return false; }

Report RunOnCuda(int, warpverbs::arch::Scope, const Job&) { throw std::logic_error("built without CUDA"); }
