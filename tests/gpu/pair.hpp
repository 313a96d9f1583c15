#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../examples/common/cuda_stream.hpp"
#include "../e2e/nic.hpp"
#include "warpverbs/arch/cuda.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/queue_error.hpp"

/// The fixture of the GPU tests: the library on a GPU with softhca or a ConnectX.
namespace warpverbs::gpu {

using arch::Scope;
using device::Code;
using device::LocalMemory;
using device::Posted;
using device::QueueView;
using device::RemoteMemory;
using device::Status;
using device::WaitLimit;
using host::Placement;

/// Limit of every wait of a kernel, and so of the kernel.
inline constexpr uint64_t kTimeoutNs = 20'000'000'000;

template <class A>
__device__ WaitLimit Within(uint64_t ns = kTimeoutNs) {
  return {.deadline_ns = A::NowNs() + ns};
}

/// GPU memory that a NIC can access.
class Memory {
 public:
  Memory(const host::Device& device, const host::Gpu& gpu, size_t bytes)
      : memory_(gpu, bytes),
        region_(device, memory_.data(), memory_.size(),
                {.remote_read = true, .remote_write = true, .remote_atomic = true}) {}

  template <class T = uint64_t>
  T* data() const {
    return reinterpret_cast<T*>(memory_.data());
  }
  LocalMemory Local(uint64_t offset, uint64_t bytes) const {
    return {region_.View().addr + offset, bytes, mlx5::ToBe32(region_.View().lkey)};
  }
  RemoteMemory Remote(uint64_t offset) const {
    return {region_.View().addr + offset, mlx5::ToBe32(region_.View().rkey)};
  }

  /// Returns the current value of a word.
  uint64_t Word(size_t index) const {
    uint64_t word = 0;
    memory_.CopyOut(8 * index, std::as_writable_bytes(std::span(&word, 1)));
    return word;
  }
  void SetWord(size_t index, uint64_t word) const {
    memory_.CopyIn(8 * index, std::as_bytes(std::span(&word, 1)));
  }

 private:
  host::GpuMemory memory_;
  host::MemoryRegion region_;
};

struct PairOptions {
  Placement placement = Placement::kGpu;
  host::EndpointConfig a{};
  host::EndpointConfig b{};
  int gpu_a = 0, gpu_b = 0;
  size_t bytes = 1 << 20;  ///< size of each memory
};

/// Two connected endpoints. Kernels of a's GPU post, and may write to b's `target`.
class Pair {
 public:
  /// @param on  device of both endpoints; a new one by default
  explicit Pair(const PairOptions& options = {}, std::shared_ptr<host::Device> on = e2e::OpenNic())
      : device_(std::move(on)),
        gpu_a(options.gpu_a),
        gpu_b(options.gpu_b),
        a(*device_, With(options.a, gpu_a, options.placement)),
        b(*device_, With(options.b, gpu_b, options.placement)),
        source(*device_, gpu_a, options.bytes),
        target(*device_, gpu_b, options.bytes) {
    Connect();
  }

  const host::Device& device() const { return *device_; }
  Scope scope() const { return a.ReleaseScope(); }

  void Connect() {
    a.Connect(b.Info());
    b.Connect(a.Info());
  }
  void Reconnect() {
    a.Reset();
    b.Reset();
    Connect();
  }

 private:
  static host::EndpointConfig With(host::EndpointConfig config, const host::Gpu& gpu, Placement placement) {
    config.gpu = &gpu;
    config.placement = placement;
    return config;
  }

  std::shared_ptr<host::Device> device_;

 public:
  host::Gpu gpu_a, gpu_b;
  host::Endpoint a, b;
  Memory source, target;
};

/// Host memory that kernels and the host may change at the same time.
template <class T>
class Mapped {
 public:
  explicit Mapped(const host::Gpu& gpu, size_t count = 1)
      : pages_(count * sizeof(T)), mapping_(gpu, pages_.bytes()), count_(count) {
    for (size_t i = 0; i < count; ++i) new (&(*this)[i]) T{};
  }
  T* get() const { return reinterpret_cast<T*>(pages_.data()); }
  T& operator[](size_t index) const { return get()[index]; }
  T& operator*() const { return *get(); }
  T* operator->() const { return get(); }
  size_t size() const { return count_; }

 private:
  host::HostPages pages_;
  host::GpuMapping mapping_;
  size_t count_;
};

/// Calls `body` with the arch for queues of release scope `scope`: `body(arch::Cuda{})`.
template <class Body>
void WithArch(Scope scope, const Body& body) {
  scope == Scope::kGpu ? body(arch::Cuda{}) : body(arch::CudaSystem{});
}

/// Loads a kernel, because CUDA cannot load it while a running kernel waits for it.
template <class... Parameters>
void Load(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  CheckCuda(cudaFuncGetAttributes(&attributes, kernel), "load a kernel");
}

/// Runs a kernel to its end.
template <class... Parameters>
void RunKernel(const host::Gpu& gpu, dim3 blocks, dim3 threads, void (*kernel)(Parameters...),
               const std::type_identity_t<Parameters>&... arguments) {
  const CudaStream stream(gpu.ordinal());
  kernel<<<blocks, threads, 0, stream.get()>>>(arguments...);
  CheckCuda(cudaGetLastError(), "launch a kernel");
  stream.Wait();
}

/// Returns a byte of a round's pattern. Each byte differs from that of the last round.
__host__ __device__ inline uint8_t ByteOf(uint64_t round, uint64_t index) {
  return static_cast<uint8_t>(31 * round + 7 * index + (index >> 8));
}

inline ::testing::AssertionResult IsOk(const Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << host::Describe(status);
}

/// Tests that run with queues on the GPU and in host memory.
class Placed : public testing::TestWithParam<Placement> {};

#define WARPVERBS_PLACED(Suite)                                                                \
  INSTANTIATE_TEST_SUITE_P(                                                                    \
      , Suite, testing::Values(Placement::kGpu, Placement::kHost), [](const auto& placement) { \
        return placement.param == Placement::kGpu ? "QueuesOnTheGpu" : "QueuesInHostMemory";   \
      })

}  // namespace warpverbs::gpu
