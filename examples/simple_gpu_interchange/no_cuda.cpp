#include <stdexcept>
#include <string>

#include "cuda.hpp"

bool CanRing(int, uint64_t*) { return false; }

namespace {

std::runtime_error NoCuda(int gpu) {
  return std::runtime_error("Cannot use cuda:" + std::to_string(gpu) +
                            ": this program was built without CUDA. Configure it with -DWARPVERBS_CUDA=ON.");
}

}  // namespace

Outcome RunOnCuda(int gpu, const Job&, bool, const std::vector<std::span<std::byte>>&) { throw NoCuda(gpu); }

Report RunOnCuda(int gpu, const Conversation&, bool, const std::vector<std::span<std::byte>>&) {
  throw NoCuda(gpu);
}
