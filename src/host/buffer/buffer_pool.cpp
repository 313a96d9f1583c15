#include "warpverbs/host/buffer_pool.hpp"

#include <condition_variable>
#include <string>
#include <utility>
#include <vector>

#include "device/owner_process.hpp"
#include "memory/bounds.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/region_cache.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

/// Returns the distance from the start of one buffer to the start of the next.
///
/// @errors  Error: the pool would be empty or larger than the address space
size_t Stride(const MemoryKind& kind, const BufferPoolConfig& config) {
  const std::string object = "a pool of " + std::to_string(config.count) + " buffers of " +
                             std::to_string(config.buffer_bytes) + " bytes of " + kind.name();
  if (config.count == 0 || config.buffer_bytes == 0) {
    throw Error("make", object, "a pool cannot be empty", "Ask for 1 buffer of 1 byte or more");
  }
  constexpr size_t kMax = ~size_t{0} - BufferPool::kAlignment;
  const size_t stride = config.buffer_bytes > kMax ? 0
                                                   : (config.buffer_bytes + BufferPool::kAlignment - 1) /
                                                         BufferPool::kAlignment * BufferPool::kAlignment;
  if (stride == 0 || config.count > ~size_t{0} / stride) {
    throw Error("make", object, "no machine has that much memory", "Ask for fewer or smaller ones");
  }
  return stride;
}

}  // namespace

/// State that the pool shares with its leases.
struct BufferPool::Shelf {
  Shelf(const MemoryKind& kind, std::span<const Device* const> devices, const BufferPoolConfig& options)
      : config(options),
        stride(Stride(kind, options)),
        memory(kind.Allocate(stride * options.count)),
        regions(devices, *memory, options.access) {
    free.reserve(options.count);  // giving back must not allocate: it cannot report failure
    for (size_t buffer = options.count; buffer-- > 0;) free.push_back(buffer * stride);
  }

  void GiveBack(size_t offset) {
    {
      const sync::LockGuard lock(mutex);
      free.push_back(offset);
    }
    came_back.notify_one();
  }

  const OwnerProcess owner;
  const BufferPoolConfig config;
  const size_t stride;
  const std::unique_ptr<Buffer> memory;
  const RegionSet regions;  // destroyed before the memory
  sync::Mutex mutex;
  std::condition_variable came_back;
  std::vector<size_t> free WARPVERBS_GUARDED_BY(mutex);  // offsets
};

BufferPool::BufferPool(const MemoryKind& kind, std::span<const Device* const> devices,
                       const BufferPoolConfig& config)
    : shelf_(std::make_shared<Shelf>(kind, devices, config)) {}

BufferPool::~BufferPool() {
  if (!shelf_->owner.IsThisOne()) Abandon(shelf_);
}

BufferPool::Lease BufferPool::Allocate(Deadline deadline) {
  Shelf& shelf = *shelf_;
  sync::UniqueLock lock(shelf.mutex);
  const auto has_one = [&]() WARPVERBS_REQUIRES(shelf.mutex) { return !shelf.free.empty(); };
  if (!shelf.came_back.wait_until(lock, deadline, has_one)) return {};
  const size_t offset = shelf.free.back();
  shelf.free.pop_back();
  return {shelf_, offset};
}

size_t BufferPool::FreeCount() const {
  const sync::LockGuard lock(shelf_->mutex);
  return shelf_->free.size();
}

size_t BufferPool::TotalCount() const { return shelf_->config.count; }
size_t BufferPool::BufferSize() const { return shelf_->config.buffer_bytes; }

BufferPool::Lease& BufferPool::Lease::operator=(Lease&& other) noexcept {
  const Lease old(std::move(*this));
  shelf_ = std::move(other.shelf_);
  offset_ = other.offset_;
  return *this;
}

BufferPool::Lease::~Lease() {
  if (shelf_) shelf_->owner.IsThisOne() ? shelf_->GiveBack(offset_) : Abandon(shelf_);
}

const BufferPool::Shelf& BufferPool::Lease::shelf() const {
  if (shelf_) return *shelf_;
  throw Error("use", "a buffer of a pool",
              "the lease is empty: no buffer became free in time, or the lease was moved from",
              "Check that the lease holds a buffer before using it");
}

std::byte* BufferPool::Lease::data() const { return shelf().memory->data() + offset_; }
size_t BufferPool::Lease::size() const { return shelf().config.buffer_bytes; }

void BufferPool::Lease::CopyIn(size_t offset, std::span<const std::byte> from) const {
  shelf().memory->CopyIn(Place(offset, from.size()), from);
}

void BufferPool::Lease::CopyOut(size_t offset, std::span<std::byte> to) const {
  shelf().memory->CopyOut(Place(offset, to.size()), to);
}

void BufferPool::Lease::Flush(FlushDirection direction, Deadline deadline, void* stream) const {
  shelf().memory->Flush(direction, deadline, stream);
}

size_t BufferPool::Lease::Place(size_t offset, size_t bytes) const {
  if (!IsWithin(offset, bytes, size())) ThrowOutOfRange("a buffer of a pool", offset, bytes, size());
  return offset_ + offset;
}

MemoryView BufferPool::Lease::View(size_t device) const {
  return shelf().regions.View(device).Subrange(offset_, size());
}

MemoryView BufferPool::Lease::View(const Device& device) const {
  return shelf().regions.View(device).Subrange(offset_, size());
}

}  // namespace warpverbs::inline v0_2::host
