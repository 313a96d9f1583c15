#include "perf/side/memory.hpp"

#include <algorithm>
#include <span>

#include "common/nic_copies.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gaudi.hpp"
#include "warpverbs/host/hip.hpp"
#include "warpverbs/host/queue_error.hpp"

namespace warpverbs::perf {
namespace {

constexpr uint64_t kPageBytes = 4096;  // alignment of the parts

uint64_t RoundUp(uint64_t bytes, uint64_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

[[noreturn]] void ThrowFailedCopy(const host::Endpoint& endpoint, const std::string& object,
                                  const device::Status& status) {
  const std::optional<host::QueueError> error = endpoint.LastError();
  throw host::Error("copy", object, error ? error->Describe() : host::Describe(status),
                    "Check the port with warpverbs-doctor, or leave out --data_validation");
}

std::unique_ptr<host::MemoryKind> KindOf(const MemoryChoice& choice, const host::Gpu* gpu,
                                         host::Placement placement) {
  switch (choice.kind) {
    case MemoryChoice::Kind::kCuda:
      return std::make_unique<host::CudaMemoryKind>(FindGpu(choice));
    case MemoryChoice::Kind::kRocm:
      return std::make_unique<host::HipMemoryKind>(host::HipGpu(choice.ordinal));
    case MemoryChoice::Kind::kGaudi:
      return std::make_unique<host::GaudiMemoryKind>(host::Gaudi(choice.pci_address));
    case MemoryChoice::Kind::kDefault:
      break;
  }
  if (gpu == nullptr) return std::make_unique<host::HostMemoryKind>();
  if (placement == host::Placement::kHost) return std::make_unique<host::PinnedMemoryKind>(*gpu);
  return std::make_unique<host::CudaMemoryKind>(*gpu);
}

host::MemoryRegion Register(const host::Device& device, const host::Buffer& buffer,
                            const host::Access& access, bool by_dma_buf) {
  if (!by_dma_buf) return buffer.Register(device, access);
  if (!access.over_pcie) return {device, buffer.Export(), buffer.data(), buffer.size(), access};
  const host::Gpu gpu(host::DescribePointer(buffer.data()).ordinal);
  const host::DmaBuf file(gpu, buffer.data(), buffer.size(), {.over_pcie = true});
  return {device, file, buffer.data(), buffer.size(), access};
}

}  // namespace

host::Gpu FindGpu(const MemoryChoice& choice) {
  if (choice.pci_address.empty()) return host::Gpu(choice.ordinal);
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  const std::string wanted = lower(choice.pci_address);
  std::string others;
  for (int i = 0; i < host::Gpu::Count(); ++i) {
    host::Gpu gpu(i);
    const std::string address = lower(gpu.pci_address());
    if (address == wanted || (address.size() > wanted.size() && address.ends_with(":" + wanted))) return gpu;
    others += (others.empty() ? "" : ", ") + address;
  }
  throw host::Error(
      "use", "the GPU at " + choice.pci_address, "no GPU has this address",
      others.empty() ? "Run nvidia-smi to see why no GPU is available" : "Use one of: " + others);
}

Layout PageLayout(uint64_t bytes, const Alignment& alignment) {
  Layout layout{.bytes = bytes, .stride = RoundUp(std::max<uint64_t>(bytes, 1), alignment.line_bytes)};
  layout.slots = static_cast<uint32_t>(std::max<uint64_t>(1, alignment.page_bytes / layout.stride));
  return layout;
}

Layout RoomyLayout(uint64_t bytes, uint64_t messages, uint64_t max_bytes, const Alignment& alignment) {
  Layout layout = PageLayout(bytes, alignment);
  layout.slots = static_cast<uint32_t>(std::clamp<uint64_t>(max_bytes / layout.stride, 1, messages));
  return layout;
}

FlowMemory::FlowMemory(const host::Device& device, const MemoryChoice& choice, const host::Gpu* gpu,
                       host::Placement placement, uint32_t flows, uint64_t span, const host::Access& access)
    : span_(RoundUp(span, kPageBytes)) {
  const auto make = [&](host::Placement where) {
    buffer_ = KindOf(choice, gpu, where)->Allocate(2 * flows * span_);
    region_.emplace(Register(device, *buffer_, access, choice.dma_buf));
  };
  const bool may_fall_back = gpu != nullptr && choice.kind == MemoryChoice::Kind::kDefault &&
                             placement == host::Placement::kProbe && !choice.dma_buf;
  try {
    make(placement);
  } catch (const host::Error&) {
    if (!may_fall_back) throw;
    region_.reset();
    make(host::Placement::kHost);  // like the queues; Describe() reports it
  }
}

FlowMemory::~FlowMemory() = default;

void FlowMemory::CheckDevice(const MemoryChoice& choice) {
  static_cast<void>(KindOf(choice, nullptr, host::Placement::kHost));
}

void FlowMemory::CopyByNic(const host::Device& device, const host::EndpointConfig& config,
                           std::chrono::nanoseconds timeout) {
  nic_copies_ =
      std::make_unique<programs::NicCopies>(device, config, region_->View(), timeout, ThrowFailedCopy);
}

uint64_t FlowMemory::OffsetOf(uint32_t flow, Part part) const {
  return (2 * uint64_t{flow} + (part == Part::kTarget ? 1 : 0)) * span_;
}

host::MemoryView FlowMemory::ViewOf(uint32_t flow, Part part) const {
  return region_->View().Subrange(OffsetOf(flow, part), span_);
}

void FlowMemory::CopyIn(uint32_t flow, Part part, uint64_t offset, std::span<const std::byte> from) const {
  const uint64_t at = OffsetOf(flow, part) + offset;
  nic_copies_ ? nic_copies_->CopyIn(at, from) : buffer_->CopyIn(at, from);
}

void FlowMemory::CopyOut(uint32_t flow, Part part, uint64_t offset, std::span<std::byte> to) const {
  const uint64_t at = OffsetOf(flow, part) + offset;
  nic_copies_ ? nic_copies_->CopyOut(at, to) : buffer_->CopyOut(at, to);
}

std::string FlowMemory::Describe() const { return kind() + "; registration: " + method(); }

}  // namespace warpverbs::perf
