#include "warpverbs/host/queue_memory.hpp"

#include <cstring>

#include "memory/gpu_access.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

using arch::Cpu;

constexpr size_t kSinkBytes = 8;

}  // namespace

QueueMemory::QueueMemory(const Device& device, const QueueMemoryConfig& config) {
  const bool needs_gpu = config.placement == Placement::kGpu;
  const std::string object = "queues on " + device.name() + " in GPU memory";
  if (needs_gpu && config.gpu == nullptr) {
    throw Error("place", object, "no GPU is named", "Set EndpointConfig::gpu to the GPU whose kernels post");
  }
  if (needs_gpu && config.host_only != nullptr) {
    throw Error("place", object, config.host_only, "Choose Placement::kProbe or kHost");
  }
  if (config.placement == Placement::kHost || config.gpu == nullptr || config.host_only != nullptr) {
    why_ = config.gpu == nullptr         ? "threads of the CPU post"
           : config.host_only != nullptr ? config.host_only
                                         : "as asked";
    PlaceOnHost(device, config);
    return;
  }
  why_ = needs_gpu ? "as asked" : "the NIC reaches it";
  try {
    PlaceOnGpu(device, config);
  } catch (const Error& error) {
    if (needs_gpu) throw;
    sink_.reset();
    umem_.reset();
    gpu_memory_.reset();
    why_ = "in the GPU's it cannot be: " + error.reason();
    PlaceOnHost(device, config);
  }
}

void QueueMemory::PlaceOnGpu(const Device& device, const QueueMemoryConfig& config) {
  gpu_memory_.emplace(*config.gpu, config.bytes);
  std::byte* const sink = data() + config.sink;
  const Access access{};
  const GpuLadder ladder{.by_dma_buf =
                             [&](const DmaBuf& buffer) {
                               umem_.emplace(device.context(), buffer);
                               sink_.emplace(device, buffer, sink, kSinkBytes, access);
                             },
                         .by_address =
                             [&] {
                               umem_.emplace(device.context(), data(), size());
                               sink_.emplace(device, sink, kSinkBytes, access);
                             }};
  rung_ = Climb(
      ladder, *config.gpu, data(), size(),
      std::to_string(size()) + " bytes of queue memory of " + config.gpu->name() + " on " + device.name());
}

void QueueMemory::PlaceOnHost(const Device& device, const QueueMemoryConfig& config) {
  pages_.emplace(config.bytes);
  if (config.gpu != nullptr) mapping_.emplace(*config.gpu, pages_->bytes());
  umem_.emplace(device.context(), data(), size());
  sink_.emplace(device, data() + config.sink, kSinkBytes);
}

std::string QueueMemory::Describe() const {
  const std::string bytes = std::to_string(size()) + " bytes of ";
  const std::string where = on_gpu() ? "memory of " + gpu_memory_->gpu().name() + ", " + ToString(rung_)
                                     : std::string("host memory") + (mapping_ ? ", mapped for the GPU" : "");
  return bytes + where + " (" + why_ + ")";
}

void QueueMemory::Write(size_t offset, const void* from, size_t bytes) {
  if (on_gpu()) {
    gpu_memory_->CopyIn(offset, {static_cast<const std::byte*>(from), bytes});
  } else {
    std::memcpy(data() + offset, from, bytes);
  }
}

void QueueMemory::Fill(size_t offset, size_t bytes, int value) {
  if (on_gpu()) {
    gpu_memory_->CopyIn(offset, std::vector(bytes, static_cast<std::byte>(value)));
  } else {
    std::memset(data() + offset, value, bytes);
  }
}

void QueueMemory::Store(size_t offset, uint64_t value) {
  if (on_gpu()) {
    Write(offset, &value, sizeof value);
  } else {
    Cpu::Store(reinterpret_cast<uint64_t*>(data() + offset), value);
  }
}

uint64_t QueueMemory::Load(size_t offset) const {
  if (!on_gpu()) return Cpu::Load(reinterpret_cast<const uint64_t*>(data() + offset));
  uint64_t value = 0;
  gpu_memory_->CopyOut(offset, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

const std::byte* QueueMemory::Look(size_t offset, size_t bytes, std::vector<std::byte>& copy) const {
  if (!on_gpu()) return data() + offset;
  copy.resize(bytes);
  gpu_memory_->CopyOut(offset, copy);
  return copy.data();
}

}  // namespace warpverbs::host
