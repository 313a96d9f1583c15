#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

class Device;

/// Settings of a QueuePool.
struct QueuePoolConfig {
  size_t chunk_bytes = 256 * 1024;  ///< bytes registered at a time; a larger queue gets a chunk of its own
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
class WARPVERBS_EXPORT QueuePool {
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

  const QueuePoolConfig& config() const;

  class Impl;  // the library's own
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace warpverbs::inline v0_2::host
