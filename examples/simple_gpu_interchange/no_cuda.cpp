#include <stdexcept>

#include "cuda.hpp"

namespace {

std::runtime_error NoCuda() {
  return std::runtime_error(
      "Cannot use a GPU: this program was built without CUDA. Configure it with -DWARPVERBS_CUDA=ON.");
}

}  // namespace

void RequireCuda() { throw NoCuda(); }

Outcome RunOnCuda(int, warpverbs::arch::Scope, const Job&) { throw NoCuda(); }

Report RunOnCuda(int, warpverbs::arch::Scope, const Conversation&) { throw NoCuda(); }

uint64_t CountOnCuda(int, const uint8_t*, uint64_t, uint8_t) { throw NoCuda(); }

bool EnablePeerAccess(int, int) { throw NoCuda(); }
