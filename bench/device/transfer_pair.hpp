#pragma once

#include <optional>

#include "transfer_work.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::bench {

/// Memory for data that a GPU's kernels and a NIC can access.
class Buffer {
 public:
  Buffer(const host::Device& device, const host::Gpu& gpu, bool on_gpu, size_t bytes,
         const host::Access& access) {
    if (on_gpu) {
      on_gpu_.emplace(gpu, bytes);
    } else {
      on_host_.emplace(bytes);
      mapping_.emplace(gpu, on_host_->bytes());
    }
    region_.emplace(device, on_gpu ? on_gpu_->data() : on_host_->data(), bytes, access);
  }

  uint64_t* words() const { return reinterpret_cast<uint64_t*>(region_->View().addr); }
  host::MemoryView View() const { return region_->View(); }
  host::RegistrationMethod method() const { return region_->method(); }

 private:
  std::optional<host::GpuMemory> on_gpu_;  // or
  std::optional<host::HostPages> on_host_;
  std::optional<host::GpuMapping> mapping_;
  std::optional<host::MemoryRegion> region_;
};

/// An endpoint with the source of its writes and the target of its peer's writes.
struct HostSide {
  static constexpr uint32_t kDepth = 1024;

  HostSide(const host::Device& device, const host::Gpu& gpu, bool on_gpu)
      : endpoint(device, {.depth = kDepth,
                          .gpu = &gpu,
                          .placement = on_gpu ? host::Placement::kGpu : host::Placement::kHost}),
        source(device, gpu, on_gpu, kDataBytes, {.local_write = false}),
        target(device, gpu, on_gpu, kTargetBytes, {.remote_write = true, .remote_atomic = true}) {}

  Side SideTo(const HostSide& peer) const {
    return {.queue = endpoint.View(),
            .source = source.words(),
            .target = target.words(),
            .source_lkey = mlx5::ToBe32(source.View().lkey),
            .peer = peer.target.View().Remote(),
            .expected_words = 0,
            .expected_signal = 0};
  }

  host::Endpoint endpoint;
  Buffer source, target;
};

/// Two sides that are connected to each other.
struct Pair {
  Pair(const host::Device& device, const host::Gpu& gpu, bool on_gpu)
      : a(device, gpu, on_gpu), b(device, gpu, on_gpu) {
    a.endpoint.Connect(b.endpoint.Info());
    b.endpoint.Connect(a.endpoint.Info());
  }

  HostSide a, b;
};

}  // namespace warpverbs::bench
