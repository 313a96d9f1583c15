#include <array>
#include <cstdlib>

#include "fake_cuda.hpp"
#include "place.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::e2e {
namespace {

// The host can map exports of the fake GPU, but not those of a real one.
[[maybe_unused]] const int kConfigured = setenv("WARPVERBS_FAKE_CUDA", "gpus=2,dma_buf=0", 0);

/// Returns the GPUs in turn, so that each test uses both.
const host::Gpu& NextGpu() {
  static const auto& gpus = *new std::array<host::Gpu, 2>{host::Gpu(0), host::Gpu(1)};
  static size_t turns = 0;
  return gpus[turns++ % gpus.size()];
}

}  // namespace

/// The fake GPU runs a kernel as long as a test has memory.
struct Memory::Owner {
  host::GpuMemory memory;
  fake_cuda::Kernel kernel{};
};

Memory::Memory(size_t bytes)
    : owner_(new Owner{host::GpuMemory(NextGpu(), bytes)}), data_(owner_->memory.data()) {
  owner_->memory.Fill(0, bytes, std::byte{0});
}
Memory::~Memory() = default;

host::EndpointConfig Placed(host::EndpointConfig config) {
  config.gpu = &NextGpu();
  config.placement = host::Placement::kGpu;
  return config;
}

}  // namespace warpverbs::e2e
