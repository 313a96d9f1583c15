#include "queue/queue_chunk.hpp"

#include <cstdint>

#include "log/log.hpp"
#include "memory/gpu_access.hpp"
#include "queue/queue_layout.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

/// Returns how many bytes more than asked for let a part of them be aligned.
///
/// @param page  alignment that the memory has anyway
size_t RoomToAlign(const QueueMemoryConfig& config, size_t page) {
  return config.alignment > page ? config.alignment - page : 0;
}

/// Returns the offset of the first aligned byte. 0 as alignment: the first byte.
size_t OffsetTo(size_t alignment, const std::byte* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return alignment == 0 ? 0 : AlignUp(address, alignment) - address;
}

}  // namespace

QueueChunk::QueueChunk(const Device& device, const QueueMemoryConfig& config,
                       std::optional<size_t> sink_bytes) {
  const bool needs_gpu = config.placement == Placement::kGpu;
  const std::string object = "queues on " + device.name() + " in GPU memory";
  if (needs_gpu && config.gpu == nullptr) {
    throw Error("place", object, "EndpointConfig names no GPU",
                "Set EndpointConfig::gpu to the GPU whose kernels post");
  }
  if (needs_gpu && config.host_only != nullptr) {
    throw Error("place", object, config.host_only, "Choose Placement::kProbe or kHost");
  }
  if (config.placement == Placement::kHost || config.gpu == nullptr || config.host_only != nullptr) {
    why_ = config.gpu == nullptr         ? "threads of the CPU post"
           : config.host_only != nullptr ? config.host_only
                                         : "as asked";
    PlaceOnHost(device, config, sink_bytes);
    return;
  }
  why_ = needs_gpu ? "as asked" : "the NIC reaches it";
  try {
    PlaceOnGpu(device, config, sink_bytes);
  } catch (const Error& error) {
    if (needs_gpu) throw;
    sink_.reset();
    umem_.reset();
    gpu_memory_.reset();
    why_ = "GPU memory failed: " + error.reason();
    WarnOnce("queues of " + config.gpu->name() + " on " + device.name(),
             "they are in host memory; " + why_ + ". " + error.remedy() + ".");
    PlaceOnHost(device, config, sink_bytes);
  }
}

void QueueChunk::PlaceOnGpu(const Device& device, const QueueMemoryConfig& config,
                            std::optional<size_t> sink_bytes) {
  gpu_memory_.emplace(*config.gpu, config.bytes + RoomToAlign(config, GpuMemory::kPageBytes));
  bytes_ = {gpu_memory_->data(), gpu_memory_->size()};
  start_ = OffsetTo(config.alignment, data());
  std::byte* const sink = data() + start_ + config.sink;
  const size_t sink_size = sink_bytes.value_or(size() - start_ - config.sink);
  const Access access{.over_pcie = config.over_pcie};
  const GpuRegistration registration{.by_dma_buf =
                                         [&](const DmaBuf& buffer) {
                                           umem_.emplace(device.context(), buffer);
                                           sink_.emplace(device, buffer, sink, sink_size, access);
                                         },
                                     .by_address =
                                         [&] {
                                           umem_.emplace(device.context(), data(), size());
                                           sink_.emplace(device, sink, sink_size, access);
                                         },
                                     .over_pcie = config.over_pcie};
  method_ = RegisterGpuMemory(
      registration, *config.gpu, data(), size(),
      std::to_string(size()) + " bytes of queue memory of " + config.gpu->name() + " on " + device.name());
  places_.emplace(size());
}

void QueueChunk::PlaceOnHost(const Device& device, const QueueMemoryConfig& config,
                             std::optional<size_t> sink_bytes) {
  const size_t room = RoomToAlign(config, QueueLayout::kPage);
  pages_.emplace(config.bytes + room);
  // Registers the aligned part only: a registration pins memory, and the room may be much larger than it.
  bytes_ = pages_->bytes().subspan(OffsetTo(config.alignment, pages_->data()), pages_->size() - room);
  start_ = 0;
  if (config.gpu != nullptr) mapping_.emplace(*config.gpu, bytes_);
  umem_.emplace(device.context(), data(), size());
  sink_.emplace(device, data() + config.sink, sink_bytes.value_or(size() - config.sink));
  places_.emplace(size());
}

std::string QueueChunk::Describe() const {
  const std::string bytes = std::to_string(size()) + " bytes of ";
  const std::string where = gpu_memory_
                                ? "memory of " + gpu_memory_->gpu().name() + ", " + ToString(method_)
                                : std::string("host memory") + (mapping_ ? ", mapped for the GPU" : "");
  return bytes + where + " (" + why_ + ")";
}

HostChunk::HostChunk(const Gpu* gpu, size_t bytes) : pages_(bytes), places_(pages_.size()) {
  if (gpu != nullptr) mapping_.emplace(*gpu, pages_.bytes());
}

std::shared_ptr<std::byte> OwnHostMemory(const Gpu* gpu, size_t bytes) {
  const auto chunk = std::make_shared<HostChunk>(gpu, bytes);
  return {chunk, chunk->data()};
}

}  // namespace warpverbs::inline v0_2::host
