#include "memory.hpp"

#include <algorithm>
#include <ostream>
#include <vector>

#include "cuda.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gaudi.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/hip.hpp"
#include "warpverbs/host/memory_kinds.hpp"

namespace rdma_demo {

namespace host = warpverbs::host;

namespace {

constexpr uint32_t kThreads = 4;

/// What stands behind the first colon.
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

/// By an exported file if there can be one, which the summary names; else by whatever way the library finds.
host::MemoryRegion RegisterBuffer(const host::Device& device, const host::Buffer& buffer,
                                  const host::Access& access, std::optional<host::DmaBuf>& file) {
  try {
    file.emplace(buffer.Export());
    return {device, *file, buffer.data(), buffer.size(), access};
  } catch (const host::Error&) {
    file.reset();
    return buffer.Register(device, access);  // says all that was tried if it fails, too
  }
}

}  // namespace

Memory::Memory(const host::Device& device, const MemoryOptions& options) {
  const std::unique_ptr<host::MemoryKind> kind = MakeKind(options.kind);
  buffer_ = kind->Allocate(options.bytes);
  region_.emplace(RegisterBuffer(device, *buffer_, options.access, file_));
  on_host_ = options.kind == "host";
  if (options.kind.starts_with("cuda") && HasCudaKernels()) kernels_on_ = OrdinalOf(options.kind);
  if (options.kind.starts_with("gaudi")) {
    nic_copies_ = std::make_unique<NicCopies>(device, options.loop, View(), options.patience);
  }
  if (on_host_) {
    doubler_ = "a kernel on threads of the processor";
  } else if (kernels_on_) {
    doubler_ = "a kernel on cuda:" + std::to_string(*kernels_on_);
  } else {
    doubler_ = std::string("the processor, on a copy by the ") + (nic_copies_ ? "NIC" : "driver") +
               ", since this program has no kernel for " + name();
  }
}

std::unique_ptr<Memory> Memory::Choose(const host::Device& device, MemoryOptions options, std::ostream& out) {
  if (options.kind != "auto") return std::make_unique<Memory>(device, options);
  std::string reasons;
  for (const char* const accelerator : {"cuda", "hip", "gaudi"}) {
    options.kind = accelerator;
    try {
      return std::make_unique<Memory>(device, options);
    } catch (const host::Error& error) {
      reasons += std::string("     ") + accelerator + ": " + error.what() + "\n";
    }
  }
  options.kind = "host";
  auto memory = std::make_unique<Memory>(device, options);
  out << "   host memory, since there is no accelerator's that can be used:\n" << reasons;
  return memory;
}

void Memory::Write(uint64_t offset, std::span<const std::byte> from) const {
  if (nic_copies_) {
    nic_copies_->In(offset, from);
  } else {
    buffer_->CopyIn(offset, from);
  }
}

void Memory::Read(uint64_t offset, std::span<std::byte> to) const {
  if (nic_copies_) {
    nic_copies_->Out(offset, to);
  } else {
    SeeWhatArrived();
    buffer_->CopyOut(offset, to);
  }
}

void Memory::Double(uint64_t from, uint64_t to, uint64_t bytes, host::Deadline deadline) const {
  const DoubleJob job{.from = reinterpret_cast<const int32_t*>(buffer_->data() + from),
                      .to = reinterpret_cast<int32_t*>(buffer_->data() + to),
                      .count = bytes / sizeof(int32_t)};
  if (on_host_) {
    warpverbs::arch::cpu::RunBlock(kThreads, [&](uint32_t rank) { rdma_demo::Double(rank, kThreads, job); });
  } else if (kernels_on_) {
    SeeWhatArrived();
    DoubleOnCuda(*kernels_on_, job, deadline);
  } else {
    DoubleACopy(from, to, bytes);
  }
}

/// A completion tells the processor that the bytes have come; some GPUs have to be told.
void Memory::SeeWhatArrived() const {
  buffer_->Flush(host::FlushDirection::kNicToGpu, host::DeadlineIn(std::chrono::seconds(10)));
}

void Memory::DoubleACopy(uint64_t from, uint64_t to, uint64_t bytes) const {
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
