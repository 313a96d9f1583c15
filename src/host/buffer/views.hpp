#pragma once

#include <cstring>
#include <string>

#include "../cuda_context.hpp"
#include "warpverbs/host/buffer.hpp"

namespace warpverbs::host {

/// Memory that the processor reaches.
class HostView : public Buffer {
 public:
  HostView(std::byte* data, size_t size) : Buffer(data, size) {}
  std::string name() const override { return "host memory"; }

 protected:
  void DoCopyIn(size_t offset, std::span<const std::byte> from) const override {
    std::memcpy(data() + offset, from.data(), from.size());
  }
  void DoCopyOut(size_t offset, std::span<std::byte> to) const override {
    std::memcpy(to.data(), data() + offset, to.size());
  }
};

/// Memory that the CUDA driver reaches.
class GpuView : public Buffer {
 public:
  GpuView(const Gpu& gpu, std::byte* data, size_t size) : Buffer(data, size), gpu_(gpu) {}
  std::string name() const override { return "memory of " + gpu_.name(); }
  DmaBuf Export() const override { return {gpu_, data(), size()}; }
  const Gpu& gpu() const { return gpu_; }

 protected:
  void DoCopyIn(size_t offset, std::span<const std::byte> from) const override {
    gpu_.context()->CopyIn(ToCuda(data() + offset), from);
  }
  void DoCopyOut(size_t offset, std::span<std::byte> to) const override {
    gpu_.context()->CopyOut(ToCuda(data() + offset), to);
  }

 private:
  Gpu gpu_;
};

}  // namespace warpverbs::host
