#include <algorithm>

#include "buffer/views.hpp"
#include "memory/page_range.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/pointer_info.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

class HostBuffer final : public HostView {
 public:
  explicit HostBuffer(HostPages pages) : HostView(pages.data(), pages.size()), pages_(std::move(pages)) {}

 private:
  HostPages pages_;
};

class PinnedBuffer final : public MappedView {
 public:
  PinnedBuffer(const Gpu& gpu, HostPages pages)
      : MappedView(gpu, pages.data(), pages.size()),
        pages_(std::move(pages)),
        mapping_(gpu, pages_.bytes()) {}

 private:
  HostPages pages_;
  GpuMapping mapping_;
};

class CudaBuffer final : public GpuView {
 public:
  explicit CudaBuffer(GpuMemory memory)
      : GpuView(memory.gpu(), memory.data(), memory.size()), memory_(std::move(memory)) {}

 private:
  GpuMemory memory_;
};

}  // namespace

std::unique_ptr<Buffer> HostMemoryKind::Allocate(size_t bytes) const {
  return std::make_unique<HostBuffer>(HostPages(bytes));
}

std::unique_ptr<Buffer> PinnedMemoryKind::Allocate(size_t bytes) const {
  return std::make_unique<PinnedBuffer>(gpu_, HostPages(bytes));
}

std::unique_ptr<Buffer> CudaMemoryKind::Allocate(size_t bytes) const {
  if (gpu_.attributes().integrated) {
    return PinnedMemoryKind(gpu_).Allocate(
        std::max(bytes, PageRange::Around(0, bytes, GpuMemory::kPageBytes).bytes));
  }
  return std::make_unique<CudaBuffer>(GpuMemory(gpu_, bytes));
}

std::unique_ptr<Buffer> WrapPointer(void* memory, size_t bytes) {
  const PointerInfo pointer = DescribePointer(memory);
  if (pointer.kind == PointerKind::kUnknown || bytes == 0) {
    throw Error("use", std::to_string(bytes) + " bytes of " + ToString(pointer.kind),
                bytes == 0 ? "the range is empty" : "nothing is allocated there", "Pass allocated memory");
  }
  auto* const data = static_cast<std::byte*>(memory);
  if (pointer.on_gpu()) return std::make_unique<GpuView>(Gpu(pointer.ordinal), data, bytes);
  if (pointer.kind == PointerKind::kPinned) {
    if (pointer.of_hip) return WrapHipPinned(HipGpu(pointer.ordinal), data, bytes);
    return std::make_unique<MappedView>(Gpu(pointer.ordinal), data, bytes);
  }
  if (pointer.kind == PointerKind::kHip) return WrapHip(HipGpu(pointer.ordinal), data, bytes);
  return std::make_unique<HostView>(data, bytes);
}

}  // namespace warpverbs::inline v0_2::host
