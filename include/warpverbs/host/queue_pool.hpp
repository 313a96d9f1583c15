#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/queue_memory.hpp"
#include "warpverbs/host/uar.hpp"

namespace warpverbs::host {

class HostChunk;  // the library's own

struct QueuePoolConfig {
  size_t chunk_bytes = 256 * 1024;  ///< that are registered at a time; a larger queue gets a chunk of its own
  /// Endpoints that ring at one doorbell register. No doorbell is lost: a poster rings by one whole 8-byte
  /// store, which arch's StoreReleaseMmio() lets nobody merge with another; but stores to one register go one
  /// after another. 1: each has a register of its own.
  ///
  /// @source  PTX ISA 8.2, st: .mmio operations are neither merged nor split
  uint32_t endpoints_per_register = 8;
};

/// Memory and doorbell registers that many endpoints share: see EndpointConfig::pool.
///
/// Without one, each endpoint has pages, a registration, a key, a mapping for the GPU and a register of its
/// own; with one they come by the chunk and the endpoints' queues lie side by side. Each placement, and each
/// GPU, has chunks of its own. What endpoints give back is used again; chunks and registers stay until the
/// pool has gone, and the last endpoint on them. Thread-safe.
///
/// The NIC may write to all of a chunk by its key, which work requests need for QueueControl::sink, where
/// without a pool it may write to those 8 bytes alone. No peer is told the key, and it grants none anything.
class QueuePool {
 public:
  /// @param device  must outlive this and the endpoints
  /// @errors  Error: an option is out of range
  explicit QueuePool(const Device& device, const QueuePoolConfig& config = {});
  ~QueuePool();
  QueuePool(const QueuePool&) = delete;
  QueuePool& operator=(const QueuePool&) = delete;

  /// What a pool has, and what of it endpoints use now; in bytes, of both kinds of chunks.
  struct Usage {
    size_t chunks = 0;
    size_t bytes = 0;
    size_t used_bytes = 0;
    size_t registers = 0;
  };
  Usage usage() const;

  const QueuePoolConfig& config() const { return config_; }

  // For endpoints. What is taken is given back when the last pointer to it goes, be it after the pool.

  /// Memory of a chunk that is registered with the NIC.
  struct Queues {
    std::shared_ptr<QueueChunk> chunk;
    std::shared_ptr<std::byte> place;
  };

  /// Takes a place for queues. Its bytes may be another endpoint's of before.
  ///
  /// @param config  the sink's place does not matter
  /// @errors  Error: another Device object than the pool's; a chunk more cannot be had
  Queues TakeQueues(const Device& device, const QueueMemoryConfig& config);

  /// Takes zeroed host memory that no NIC reaches.
  ///
  /// @param gpu  that it is mapped for; nullptr: none
  /// @errors  Error: a chunk more cannot be had
  std::shared_ptr<std::byte> TakeHostMemory(const Gpu* gpu, size_t bytes);

  /// Takes a share of a doorbell register.
  ///
  /// @errors  Error: another Device object than the pool's; no register is to be had
  std::shared_ptr<const Uar> TakeRegister(const Device& device);

 private:
  /// Chunks of one kind may serve the same endpoints.
  struct QueueKind {
    std::optional<int> gpu;  // by its ordinal
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

}  // namespace warpverbs::host
