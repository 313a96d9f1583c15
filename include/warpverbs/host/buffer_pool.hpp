#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// What a pool of buffers has.
struct BufferPoolConfig {
  size_t buffer_bytes = 0;  ///< size of each buffer
  size_t count = 0;         ///< number of buffers
  Access access{};          ///< that the NICs grant, to each buffer
};

/// Buffers of one size, registered, that are handed out again and again.
///
/// They are one allocation and one registration on each device, so taking a buffer calls neither the kernel
/// nor a driver. Thread-safe. The pool may go before its buffers do: what it is made of goes with the last.
class WARPVERBS_EXPORT BufferPool {
  struct Shelf;

 public:
  /// The use of a buffer; dropped, the buffer goes back. One that is empty has none.
  ///
  /// Two threads may use two buffers, not one. It has what the last user left in it.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();

    explicit operator bool() const { return shelf_ != nullptr; }

    // Of an empty one each throws Error.
    std::byte* data() const;  ///< where kernels and NICs see it; see Buffer
    size_t size() const;
    void CopyIn(size_t offset, std::span<const std::byte> from) const;  ///< see Buffer
    void CopyOut(size_t offset, std::span<std::byte> to) const;
    /// Of all buffers, as Buffer::Flush().
    void Flush(FlushDirection direction, Deadline deadline, void* stream = nullptr) const;

    /// All of it, with a device's keys.
    ///
    /// @param device  index in the pool's devices
    /// @errors  as RegionSet::View()
    MemoryView View(size_t device = 0) const;
    MemoryView View(const Device& device) const;

   private:
    friend class BufferPool;
    Lease(std::shared_ptr<Shelf> shelf, size_t offset) : shelf_(std::move(shelf)), offset_(offset) {}
    const Shelf& shelf() const;
    size_t Place(size_t offset, size_t bytes) const;

    std::shared_ptr<Shelf> shelf_;
    size_t offset_ = 0;  // in the memory of all
  };

  /// Each buffer begins at a multiple of so many bytes, so that no two share a cache line of a GPU.
  static constexpr size_t kAlignment = 256;

  /// @param devices  each must outlive this and all leases
  /// @errors  Error: no memory, no buffers, or no device that reaches them
  BufferPool(const MemoryKind& kind, std::span<const Device* const> devices, const BufferPoolConfig& config);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Takes a buffer, of several free ones that which came back last. Waits without using a processor.
  ///
  /// @param deadline  one that has passed: do not wait
  /// @return  an empty one: none came back in time
  Lease Allocate(Deadline deadline = {});

  size_t FreeCount() const;
  size_t TotalCount() const;
  size_t BufferSize() const;  ///< in bytes

 private:
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace warpverbs::inline v0_2::host
