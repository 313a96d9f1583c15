// Replaces cuda.cu in a build without CUDA.
#include <stdexcept>

#include "pattern.hpp"

bool HasPatternKernels() { return false; }

void FillByKernel(int, std::byte*, size_t, uint64_t) { throw std::logic_error("built without CUDA"); }

size_t CountWrongByKernel(int, const std::byte*, size_t, uint64_t) {
  throw std::logic_error("built without CUDA");
}
