#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/owner_process.hpp"
#include "queue/queue_memory.hpp"
#include "queue/uar.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/queue_pool.hpp"

namespace warpverbs::inline v0_2::host {

class HostChunk;
class QueueChunk;

/// Allocates memory and registers for endpoints. The last pointer to a place frees it, even after the pool is
/// destroyed.
class QueuePool::Impl {
 public:
  Impl(const Device& device, const QueuePoolConfig& config);

  bool InOwnProcess() const { return owner_.IsThisOne(); }
  Usage usage() const;
  const QueuePoolConfig& config() const { return config_; }

  /// A place for queues, and the registered chunk that contains it.
  struct Queues {
    std::shared_ptr<QueueChunk> chunk;
    std::shared_ptr<std::byte> place;
  };

  /// Takes a place for queues. It may contain an earlier endpoint's bytes.
  ///
  /// @param config  the offset of the sink is ignored
  /// @errors  Error: another Device object than the pool's, or another chunk cannot be allocated
  Queues TakeQueues(const Device& device, const QueueMemoryConfig& config);

  /// Takes zeroed host memory that is not registered with a NIC.
  ///
  /// @param gpu  GPU to map it for; nullptr: none
  /// @errors  Error: another chunk cannot be allocated
  std::shared_ptr<std::byte> TakeHostMemory(const Gpu* gpu, size_t bytes);

  /// Takes a doorbell register, which endpoints share.
  ///
  /// @errors  Error: another Device object than the pool's, or no register can be allocated
  std::shared_ptr<const Uar> TakeRegister(const Device& device);

 private:
  /// Properties that an endpoint's chunk must have.
  struct QueueKind {
    std::optional<int> gpu;  // ordinal
    Placement placement;
    std::string host_only;
    bool over_pcie;
    bool operator==(const QueueKind&) const = default;
  };
  struct QueueEntry {
    QueueKind kind;
    std::shared_ptr<QueueChunk> chunk;
  };
  struct HostEntry {
    std::optional<int> gpu;
    std::shared_ptr<HostChunk> chunk;
  };

  void CheckDevice(const Device& device) const;

  const OwnerProcess owner_;
  const Device& device_;
  const QueuePoolConfig config_;
  mutable sync::Mutex mutex_;
  std::vector<QueueEntry> queues_ WARPVERBS_GUARDED_BY(mutex_);
  std::vector<HostEntry> host_ WARPVERBS_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const Uar>> registers_ WARPVERBS_GUARDED_BY(mutex_);
};

}  // namespace warpverbs::inline v0_2::host
