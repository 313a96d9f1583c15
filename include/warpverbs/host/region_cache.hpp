#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// Memory that several NICs may reach, each by keys of its own. The memory stays the caller's and must
/// outlive the regions.
class WARPVERBS_EXPORT RegionSet {
 public:
  /// Registers memory on each of the devices. One that works is enough: ask Has() for the others.
  ///
  /// @param devices  each must outlive this
  /// @errors  Error: no device at all, or none that reaches the memory; names the reason of each
  RegionSet(std::span<const Device* const> devices, void* memory, size_t bytes, const Access& access = {});

  /// The same of all of a buffer, also of one that only its own file reaches.
  RegionSet(std::span<const Device* const> devices, const Buffer& buffer, const Access& access = {});

  size_t devices() const { return regions_.size(); }

  /// Whether a device reaches the memory.
  ///
  /// @param device  index in the devices of the constructor
  /// @errors  std::out_of_range: the index is no device's
  bool Has(size_t device) const;

  /// All of the memory, with a device's keys.
  ///
  /// @errors  std::out_of_range: the index is no device's; Error: names why the device does not reach the
  ///          memory
  MemoryView View(size_t device) const;

  /// The same by the device itself.
  ///
  /// @errors  Error: it is none of those of the constructor, and which those are
  MemoryView View(const Device& device) const;

 private:
  void RegisterOnEach(size_t bytes, const std::function<MemoryRegion(const Device&)>& register_on);

  std::vector<const Device*> devices_;
  std::vector<std::optional<MemoryRegion>> regions_;
  std::vector<std::optional<Error>> failures_;
};

/// What a cache of regions grants and keeps.
struct RegionCacheConfig {
  Access access{};             ///< rights of all its regions: use a cache for each set of rights
  size_t max_regions = 1024;   ///< kept at most; those in use may be more
  uint64_t max_bytes = ~0ULL;  ///< kept at most, of memory

  /// Keep regions of host memory that no one uses. It has no identity: where memory was freed and others took
  /// its address, a kept region would let the NIC reach the old pages. A caller that sets this calls
  /// Invalidate() before any such memory is freed. Memory that a CUDA driver knows needs no such promise.
  bool keep_host_memory = false;
};

/// What a cache has done, and what it holds.
struct RegionCacheStatistics {
  uint64_t hits = 0;
  uint64_t misses = 0;     ///< ranges that were not found, whether they could then be registered or not
  uint64_t evictions = 0;  ///< to make room
  uint64_t stale = 0;      ///< dropped: of memory that was freed, or that Invalidate() named
  size_t regions = 0;      ///< registered now, in use or not
  size_t in_use = 0;
  uint64_t bytes = 0;  ///< memory registered now
};

/// Registrations that are kept for the next use: a range that lies in a registered one costs no call of the
/// kernel.
///
/// An entry is found by its range and by the identity of the allocation, or of each mapping of cuMemCreate()
/// memory, that it lies in: an address that was freed and allocated again is not taken for what it was.
/// Entries in use are never evicted; of the others the least recently used goes first. A device that did not
/// reach the memory when it was registered is not tried again before Invalidate(). Thread-safe.
class WARPVERBS_EXPORT RegionCache {
  struct Entry;
  struct Shelf;

 public:
  /// The use of a region. It may outlive the cache, but not the devices.
  class Lease {
   public:
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();

    /// The range that was asked for, with a device's keys.
    ///
    /// @param device  index in the cache's devices
    /// @errors  as RegionSet::View()
    MemoryView View(size_t device = 0) const;
    MemoryView View(const Device& device) const;

    /// Whether the range was found, and so cost no registration.
    bool reused() const { return reused_; }

   private:
    friend class RegionCache;
    Lease(std::shared_ptr<Shelf> shelf, std::shared_ptr<Entry> entry, uint64_t offset, uint64_t bytes,
          bool reused);

    std::shared_ptr<Shelf> shelf_;
    std::shared_ptr<Entry> entry_;
    uint64_t offset_, bytes_;
    bool reused_;
  };

  /// @param devices  on which each region is registered; must outlive this and all leases
  explicit RegionCache(std::vector<const Device*> devices, const RegionCacheConfig& config = {});
  RegionCache(const RegionCache&) = delete;
  RegionCache& operator=(const RegionCache&) = delete;
  ~RegionCache();

  /// Finds a region that has all of a range, or registers the range.
  ///
  /// @errors  Error, as RegionSet; where memory, its limit or keys have run out (ENOMEM, EAGAIN, ENOSPC), all
  ///          that nobody uses is given up and it is tried once more before that
  Lease Register(void* memory, size_t bytes);

  /// Forgets all regions that have any of a range. Those in use stay registered until their last lease ends,
  /// but are not found any more.
  void Invalidate(const void* memory, size_t bytes);

  /// Gives up all that nobody uses.
  void Clear();

  RegionCacheStatistics Statistics() const;

 private:
  std::vector<const Device*> devices_;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace warpverbs::inline v0_2::host
