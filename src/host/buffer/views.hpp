#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "gpu/cuda_context.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/hip.hpp"

namespace warpverbs::inline v0_2::host {

/// Host memory.
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
  void DoFill(size_t offset, size_t bytes, std::byte value) const override {
    std::memset(data() + offset, std::to_integer<int>(value), bytes);
  }
  std::byte* on_host() const override { return data(); }
  /// Orders the processor's own writes. Processors, NICs and GPUs see host memory alike.
  void DoFlush(FlushDirection, Deadline, void*) const override { __sync_synchronize(); }
};

/// Host memory that GPU kernels reach, too.
class MappedView : public HostView {
 public:
  MappedView(const Gpu& gpu, std::byte* data, size_t size) : HostView(data, size), gpu_(gpu) {}
  std::string name() const override { return "pinned host memory"; }
  const Gpu& gpu() const { return gpu_; }

 protected:
  void DoFlush(FlushDirection direction, Deadline deadline, void* stream) const override {
    if (direction == FlushDirection::kGpuToNic)
      gpu_.context()->Finish(static_cast<CUstream_st*>(stream), deadline);
    HostView::DoFlush(direction, deadline, stream);
  }

 private:
  Gpu gpu_;
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
  void DoFill(size_t offset, size_t bytes, std::byte value) const override {
    gpu_.context()->Fill(ToCuda(data() + offset), bytes, value);
  }
  bool DoCopyTo(size_t offset, const Buffer& to, size_t to_offset, size_t bytes) const override {
    const auto* const on_gpu = dynamic_cast<const GpuView*>(&to);
    if (on_gpu == nullptr) return false;
    gpu_.context()->Copy(ToCuda(data() + offset), *on_gpu->gpu_.context(), ToCuda(to.data() + to_offset),
                         bytes);
    return true;
  }
  void DoFlush(FlushDirection direction, Deadline deadline, void* stream) const override {
    auto* const its = static_cast<CUstream_st*>(stream);
    direction == FlushDirection::kGpuToNic ? gpu_.context()->Finish(its, deadline)
                                           : gpu_.context()->FlushNicWrites(its, deadline);
  }

 private:
  Gpu gpu_;
};

/// Wraps memory of an AMD GPU.
std::unique_ptr<Buffer> WrapHip(const HipGpu& gpu, std::byte* data, size_t size);

/// Wraps host memory that is mapped for the kernels of an AMD GPU.
std::unique_ptr<Buffer> WrapHipPinned(const HipGpu& gpu, std::byte* data, size_t size);

}  // namespace warpverbs::inline v0_2::host
