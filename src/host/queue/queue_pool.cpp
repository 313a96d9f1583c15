#include <algorithm>
#include <cstring>

#include "queue/queue_chunk.hpp"
#include "queue/queue_pool_impl.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

std::optional<int> OrdinalOf(const Gpu* gpu) {
  return gpu == nullptr ? std::nullopt : std::optional(gpu->ordinal());
}

}  // namespace

QueuePool::Impl::Impl(const Device& device, const QueuePoolConfig& config)
    : device_(device), config_(config) {
  const auto require = [&](bool ok, const char* reason, const char* remedy) {
    if (!ok) throw Error("create", "a pool of queues on " + device.name(), reason, remedy);
  };
  require(config.chunk_bytes != 0, "its chunks are empty", "Raise QueuePoolConfig::chunk_bytes");
  require(config.endpoints_per_register != 0, "no endpoint may use a doorbell register",
          "Raise QueuePoolConfig::endpoints_per_register");
}

void QueuePool::Impl::CheckDevice(const Device& device) const {
  if (&device == &device_) return;
  throw Error("create", "an endpoint in a pool of queues", "the pool belongs to another Device object",
              "Create both on the same one");
}

QueuePool::Impl::Queues QueuePool::Impl::TakeQueues(const Device& device, const QueueMemoryConfig& config) {
  CheckDevice(device);
  const QueueKind kind{OrdinalOf(config.gpu), config.placement,
                       config.host_only == nullptr ? "" : config.host_only, config.over_pcie};
  const sync::LockGuard lock(mutex_);
  for (const QueueEntry& entry : queues_) {
    if (entry.kind != kind) continue;
    if (auto place = TakePlace(entry.chunk, config.bytes)) return {entry.chunk, std::move(place)};
  }
  QueueMemoryConfig whole = config;
  whole.bytes = std::max(config.bytes, config_.chunk_bytes);
  whole.sink = 0;
  auto chunk = std::make_shared<QueueChunk>(device, whole, std::nullopt);
  queues_.push_back({kind, chunk});
  auto place = TakePlace(chunk, config.bytes);
  return {std::move(chunk), std::move(place)};
}

std::shared_ptr<std::byte> QueuePool::Impl::TakeHostMemory(const Gpu* gpu, size_t bytes) {
  const std::optional<int> ordinal = OrdinalOf(gpu);
  const sync::LockGuard lock(mutex_);
  for (const HostEntry& entry : host_) {
    if (entry.gpu != ordinal) continue;
    if (auto place = TakePlace(entry.chunk, bytes)) {
      std::memset(place.get(), 0, bytes);
      return place;
    }
  }
  auto chunk = std::make_shared<HostChunk>(gpu, std::max(bytes, config_.chunk_bytes));
  host_.push_back({ordinal, chunk});
  return TakePlace(chunk, bytes);
}

std::shared_ptr<const Uar> QueuePool::Impl::TakeRegister(const Device& device) {
  CheckDevice(device);
  const sync::LockGuard lock(mutex_);
  // The newest is most likely to have room. use_count() includes the pool itself, and may only shrink here.
  const auto newest =
      std::find_if(registers_.rbegin(), registers_.rend(), [this](const std::shared_ptr<const Uar>& one) {
        return one.use_count() <= static_cast<long>(config_.endpoints_per_register);
      });
  if (newest != registers_.rend()) return *newest;
  registers_.push_back(std::make_shared<const Uar>(device.context()));
  return registers_.back();
}

QueuePool::Usage QueuePool::Impl::usage() const {
  const sync::LockGuard lock(mutex_);
  Usage usage{.registers = registers_.size()};
  const auto add = [&usage](const auto& entries) {
    for (const auto& entry : entries) {
      ++usage.chunks;
      usage.bytes += entry.chunk->size();
      usage.used_bytes += entry.chunk->places().used();
    }
  };
  add(queues_);
  add(host_);
  return usage;
}

QueuePool::QueuePool(const Device& device, const QueuePoolConfig& config)
    : impl_(std::make_unique<Impl>(device, config)) {}
QueuePool::~QueuePool() {
  if (!impl_->InOwnProcess()) static_cast<void>(impl_.release());
}
QueuePool::Usage QueuePool::usage() const { return impl_->usage(); }
const QueuePoolConfig& QueuePool::config() const { return impl_->config(); }

}  // namespace warpverbs::inline v0_2::host
