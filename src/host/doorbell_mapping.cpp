#include "doorbell_mapping.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "cuda_context.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

namespace warpverbs::host {
namespace {

struct MappedPage {
  std::shared_ptr<const CudaContext> context;  // that mapped it
  bool as_io_memory = false;
  int users = 0;
};

/// The pages that are mapped now: the driver takes each only once.
struct Pages {
  std::mutex mutex;
  std::map<std::byte*, MappedPage> mapped;  // under mutex
};

Pages& ThePages() {
  static auto* const pages = new Pages;  // endpoints may live until the very end of the program
  return *pages;
}

std::byte* PageOf(uint64_t* doorbell) {
  const auto address = reinterpret_cast<uintptr_t>(doorbell);
  return reinterpret_cast<std::byte*>(address / mlx5::kUarPageBytes * mlx5::kUarPageBytes);
}

/// @return  whether as I/O memory
bool Map(const CudaContext& context, std::byte* page) {
  const std::span<std::byte> memory(page, mlx5::kUarPageBytes);
  std::string reasons;
  try {
    context.Map(memory, kCudaIoMemory);
    return true;
  } catch (const Error& error) {
    reasons = "as I/O memory: " + error.reason();
  }
  try {
    context.Map(memory);
    return false;
  } catch (const Error& error) {
    throw Error("map", "the NIC's doorbell register for " + context.name(),
                reasons + "; as plain memory: " + error.reason(),
                "Run as root, load the nvidia module with NVreg_RegistryDwords=\"PeerMappingOverride=1;\", "
                "or let a host "
                "thread ring: DoorbellRung::kHostRings");
  }
}

}  // namespace

DoorbellMapping::DoorbellMapping(const Gpu& gpu, uint64_t* doorbell) : page_(PageOf(doorbell)) {
  const std::lock_guard lock(ThePages().mutex);
  const auto found = ThePages().mapped.find(page_);
  if (found != ThePages().mapped.end()) {
    ++found->second.users;
    as_io_memory_ = found->second.as_io_memory;
    return;
  }
  as_io_memory_ = Map(*gpu.context(), page_);
  ThePages().mapped[page_] = {gpu.context(), as_io_memory_, 1};
}

DoorbellMapping::~DoorbellMapping() {
  const std::lock_guard lock(ThePages().mutex);
  const auto found = ThePages().mapped.find(page_);
  if (--found->second.users > 0) return;
  found->second.context->Unmap(page_);
  ThePages().mapped.erase(found);
}

}  // namespace warpverbs::host
