#include "gpu/cuda_context.hpp"
#include "memory/bounds.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

size_t WholeGpuPages(size_t bytes) {
  constexpr size_t kPage = GpuMemory::kPageBytes;
  return (bytes + kPage - 1) / kPage * kPage;
}

/// Returns the device address of a range of `memory` after checking its bounds.
CudaAddress Place(const GpuMemory& memory, size_t offset, size_t bytes) {
  if (!IsWithin(offset, bytes, memory.size())) ThrowOutOfRange("GPU memory", offset, bytes, memory.size());
  return ToCuda(memory.data() + offset);
}

}  // namespace

GpuMemory::GpuMemory(const Gpu& gpu, size_t bytes)
    : gpu_(gpu), size_(WholeGpuPages(bytes)), allocation_(nullptr, {gpu.context()}) {
  const std::string object = std::to_string(bytes) + " bytes of memory of " + gpu.name();
  if (bytes == 0) throw Error("allocate", object, "an allocation cannot be empty", "Ask for 1 byte or more");
  constexpr size_t kMaxBytes = ~size_t{0} / 2;  // leaves room to round up and add a page
  if (bytes > kMaxBytes) throw Error("allocate", object, "no GPU has that much memory", "Ask for less");
  const CudaContext& context = *gpu.context();
  CudaAddress address = 0;
  {
    const CudaContext::Current current(context);
    // cuMemAlloc() aligns to less than a page. NICs and exports need whole pages, so one page more is
    // allocated.
    context.driver().Check(context.driver().MemAlloc(&address, size_ + kPageBytes), "allocate", object,
                           "Free some of the GPU's memory (nvidia-smi shows which processes hold it)");
  }
  allocation_.reset(reinterpret_cast<std::byte*>(address));
  data_ = reinterpret_cast<std::byte*>(WholeGpuPages(address));
  Fill(0, size_, std::byte{0});
}

void GpuMemory::CopyIn(size_t offset, std::span<const std::byte> from) const {
  gpu_.context()->CopyIn(Place(*this, offset, from.size()), from);
}

void GpuMemory::CopyOut(size_t offset, std::span<std::byte> to) const {
  gpu_.context()->CopyOut(Place(*this, offset, to.size()), to);
}

void GpuMemory::Fill(size_t offset, size_t bytes, std::byte value) const {
  gpu_.context()->Fill(Place(*this, offset, bytes), bytes, value);
}

void GpuMemory::Free::operator()(std::byte* memory) const {
  context->Quietly([memory](const CudaDriver& driver) { driver.MemFree(ToCuda(memory)); });
}

GpuMapping::GpuMapping(const Gpu& gpu, std::span<std::byte> memory) : memory_(nullptr, {gpu.context()}) {
  gpu.context()->Map(memory);
  memory_.reset(memory.data());
  if (gpu.context()->DeviceAddressOf(memory.data()) != ToCuda(memory.data())) {
    throw Error("map", std::to_string(memory.size()) + " bytes of host memory for " + gpu.name(),
                "the GPU sees it at another address",
                "Use a GPU, a driver and a system with unified addressing");
  }
}

void GpuMapping::Unregister::operator()(std::byte* memory) const { context->Unmap(memory); }

}  // namespace warpverbs::inline v0_2::host
