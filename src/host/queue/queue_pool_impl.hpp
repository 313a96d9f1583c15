#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "queue/queue_memory.hpp"
#include "queue/uar.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/queue_pool.hpp"

namespace warpverbs::inline v0_2::host {

class HostChunk;
class QueueChunk;

/// Takes memory and registers for endpoints. The last pointer to what was taken gives it back, even after the
/// pool is gone.
class QueuePool::Impl {
 public:
  Impl(const Device& device, const QueuePoolConfig& config);

  Usage usage() const;
  const QueuePoolConfig& config() const { return config_; }

  /// Memory of a chunk that is registered with the NIC.
  struct Queues {
    std::shared_ptr<QueueChunk> chunk;
    std::shared_ptr<std::byte> place;
  };

  /// Takes a place for queues. Its bytes may be those of an earlier endpoint.
  ///
  /// @param config  the sink's place does not matter
  /// @errors  Error: another Device object than the pool's; no further chunk can be had
  Queues TakeQueues(const Device& device, const QueueMemoryConfig& config);

  /// Takes zeroed host memory that no NIC reaches.
  ///
  /// @param gpu  GPU to map it for; nullptr: none
  /// @errors  Error: no further chunk can be had
  std::shared_ptr<std::byte> TakeHostMemory(const Gpu* gpu, size_t bytes);

  /// Takes a share of a doorbell register.
  ///
  /// @errors  Error: another Device object than the pool's; no register can be had
  std::shared_ptr<const Uar> TakeRegister(const Device& device);

 private:
  /// Chunks of one kind may serve the same endpoints.
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

  const Device& device_;
  const QueuePoolConfig config_;
  mutable std::mutex mutex_;
  std::vector<QueueEntry> queues_;                     // under mutex_
  std::vector<HostEntry> host_;                        // under mutex_
  std::vector<std::shared_ptr<const Uar>> registers_;  // under mutex_
};

}  // namespace warpverbs::inline v0_2::host
