#include "memory.hpp"

#include <algorithm>
#include <ostream>
#include <vector>

#include "kernel.hpp"
#include "operation.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/gaudi.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/hip.hpp"

namespace rdma_demo {

namespace host = warpverbs::host;

namespace {

constexpr uint32_t kThreads = 4;

/// Returns the text after the first colon.
std::string AfterColon(const std::string& kind) {
  const size_t colon = kind.find(':');
  return colon == std::string::npos ? "" : kind.substr(colon + 1);
}

int OrdinalOf(const std::string& kind) {
  const std::string number = AfterColon(kind);
  return number.empty() ? 0 : std::stoi(number);
}

std::unique_ptr<host::MemoryKind> MakeKind(const std::string& kind) {
  if (kind.starts_with("cuda")) return std::make_unique<host::CudaMemoryKind>(host::Gpu(OrdinalOf(kind)));
  if (kind.starts_with("hip")) return std::make_unique<host::HipMemoryKind>(host::HipGpu(OrdinalOf(kind)));
  if (kind.starts_with("gaudi"))
    return std::make_unique<host::GaudiMemoryKind>(host::Gaudi(AfterColon(kind)));
  return std::make_unique<host::HostMemoryKind>();
}

/// Registers a buffer by its dma-buf if it has one, which the summary names; otherwise as the library
/// decides.
host::MemoryRegion RegisterBuffer(const host::Device& device, const host::Buffer& buffer,
                                  const host::Access& access, std::optional<host::DmaBuf>& file) {
  try {
    file.emplace(buffer.Export());
    return {device, *file, buffer.data(), buffer.size(), access};
  } catch (const host::Error&) {
    file.reset();
    return buffer.Register(device, access);  // if this fails too, the error names all methods
  }
}

}  // namespace

Memory::Memory(const host::Device& device, const MemoryConfig& config) {
  const std::unique_ptr<host::MemoryKind> kind = MakeKind(config.kind);
  buffer_ = kind->Allocate(config.bytes);
  region_.emplace(RegisterBuffer(device, *buffer_, config.access, file_));
  on_host_ = config.kind == "host";
  if (config.kind.starts_with("cuda") && HasCudaKernels()) kernel_gpu_ = OrdinalOf(config.kind);
  if (config.kind.starts_with("gaudi")) {
    nic_copies_ = std::make_unique<warpverbs::programs::NicCopies>(
        device, config.loop, View(), config.timeout,
        [](const host::Endpoint& endpoint, const std::string& object,
           const warpverbs::device::Status& status) { CheckOperation(endpoint, "copy " + object, status); });
  }
  if (on_host_) {
    doubler_ = "a kernel on threads of the processor";
  } else if (kernel_gpu_) {
    doubler_ = "a kernel on cuda:" + std::to_string(*kernel_gpu_);
  } else {
    doubler_ = std::string("the processor, on a copy by the ") + (nic_copies_ ? "NIC" : "driver") +
               ", because this program has no kernel for " + name();
  }
}

std::unique_ptr<Memory> Memory::Choose(const host::Device& device, MemoryConfig config, std::ostream& out) {
  if (config.kind != "auto") return std::make_unique<Memory>(device, config);
  std::string reasons;
  for (const char* const accelerator : {"cuda", "hip", "gaudi"}) {
    config.kind = accelerator;
    try {
      return std::make_unique<Memory>(device, config);
    } catch (const host::Error& error) {
      reasons += std::string("     ") + accelerator + ": " + error.what() + "\n";
    }
  }
  config.kind = "host";
  auto memory = std::make_unique<Memory>(device, config);
  out << "   host memory, because no accelerator can be used:\n" << reasons;
  return memory;
}

void Memory::Write(uint64_t offset, std::span<const std::byte> from) const {
  if (nic_copies_) {
    nic_copies_->CopyIn(offset, from);
  } else {
    buffer_->CopyIn(offset, from);
  }
}

void Memory::Read(uint64_t offset, std::span<std::byte> to) const {
  if (nic_copies_) {
    nic_copies_->CopyOut(offset, to);
  } else {
    FlushArrivals();
    buffer_->CopyOut(offset, to);
  }
}

void Memory::Double(uint64_t from, uint64_t to, uint64_t bytes, host::Deadline deadline) const {
  const DoubleJob job{.from = reinterpret_cast<const int32_t*>(buffer_->data() + from),
                      .to = reinterpret_cast<int32_t*>(buffer_->data() + to),
                      .count = bytes / sizeof(int32_t)};
  if (on_host_) {
    warpverbs::arch::cpu::RunBlock(kThreads, [&](uint32_t rank) { rdma_demo::Double(rank, kThreads, job); });
  } else if (kernel_gpu_) {
    FlushArrivals();
    DoubleOnCuda(*kernel_gpu_, job, deadline);
  } else {
    DoubleOnHost(from, to, bytes);
  }
}

// A completion makes the bytes visible to the processor. Some GPUs need a flush.
void Memory::FlushArrivals() const {
  buffer_->Flush(host::FlushDirection::kNicToGpu, host::DeadlineIn(std::chrono::seconds(10)));
}

void Memory::DoubleOnHost(uint64_t from, uint64_t to, uint64_t bytes) const {
  std::vector<int32_t> copy(std::min<uint64_t>(bytes / sizeof(int32_t), uint64_t{1} << 18));
  for (uint64_t at = 0; at < bytes;) {
    const std::span<int32_t> piece =
        std::span(copy).first(std::min<uint64_t>(copy.size(), (bytes - at) / sizeof(int32_t)));
    Read(from + at, std::as_writable_bytes(piece));
    for (int32_t& integer : piece) integer = Twice(integer);
    Write(to + at, std::as_bytes(piece));
    at += piece.size_bytes();
  }
}

}  // namespace rdma_demo
