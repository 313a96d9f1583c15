#include <stdexcept>
#include <string>

#include "cuda.hpp"

Outcome RunOnCuda(int gpu, const Job&, const std::vector<std::span<std::byte>>&) {
  throw std::runtime_error("Cannot use cuda:" + std::to_string(gpu) +
                           ": this program was built without CUDA. Configure it with -DWARPVERBS_CUDA=ON.");
}
