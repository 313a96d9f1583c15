#include "queue/doorbell_mapping.hpp"

#include <map>
#include <memory>
#include <span>

#include "device/owner_process.hpp"
#include "gpu/cuda_context.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

struct MappedPage {
  std::shared_ptr<const CudaContext> context;  // the context that mapped the page
  bool as_io_memory = false;
  int users = 0;
};

/// The mapped pages. The driver maps each page only once.
struct Pages {
  sync::Mutex mutex;
  std::map<std::byte*, MappedPage> mapped WARPVERBS_GUARDED_BY(mutex);
};

Pages& ThePages() {
  static const PerProcess<Pages> pages;
  return *pages;
}
[[maybe_unused]] const Pages& made_before_threads = ThePages();

void UnmapIfUnused(Pages& pages, std::map<std::byte*, MappedPage>::iterator page)
    WARPVERBS_REQUIRES(pages.mutex) {
  if (page->second.users > 0) return;
  page->second.context->Unmap(page->first);
  pages.mapped.erase(page);
}

std::byte* PageOf(uint64_t* doorbell) {
  const auto address = reinterpret_cast<uintptr_t>(doorbell);
  return reinterpret_cast<std::byte*>(address / mlx5::kUarPageBytes * mlx5::kUarPageBytes);
}

/// Maps a page for a GPU. Returns whether it is mapped as I/O memory.
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
                "or let a host thread ring: DoorbellMode::kHostProxy");
  }
}

}  // namespace

DoorbellMapping::DoorbellMapping(const Gpu& gpu, uint64_t* doorbell) : page_(PageOf(doorbell)) {
  Pages& pages = ThePages();
  const sync::LockGuard lock(pages.mutex);
  auto found = pages.mapped.find(page_);
  if (found == pages.mapped.end()) {
    found = pages.mapped.emplace(page_, MappedPage{gpu.context()}).first;
    try {
      found->second.as_io_memory = Map(*gpu.context(), page_);
    } catch (...) {
      pages.mapped.erase(found);
      throw;
    }
  }
  MappedPage& mapped = found->second;
  try {
    const uint64_t offset = reinterpret_cast<uintptr_t>(doorbell) % mlx5::kUarPageBytes;
    doorbell_ = reinterpret_cast<uint64_t*>(gpu.context()->DeviceAddressOf(page_) + offset);
  } catch (const Error&) {
    UnmapIfUnused(pages, found);
    throw;
  }
  as_io_memory_ = mapped.as_io_memory;
  ++mapped.users;
}

DoorbellMapping::~DoorbellMapping() {
  Pages& pages = ThePages();
  const sync::LockGuard lock(pages.mutex);
  const auto found = pages.mapped.find(page_);
  --found->second.users;
  UnmapIfUnused(pages, found);
}

}  // namespace warpverbs::inline v0_2::host
