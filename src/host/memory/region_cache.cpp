#include "warpverbs/host/region_cache.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <utility>

#include "device/owner_process.hpp"
#include "memory/locked_memory.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/pointer_info.hpp"

namespace warpverbs::inline v0_2::host {
struct RegionCache::Entry {
  uint64_t start, bytes;
  std::vector<PointerInfo> pieces;  // its allocations or cuMemMap() mappings
  RegionSet regions;
  uint32_t uses = 0;
  bool listed = false;        // whether the index holds it
  std::list<Entry*> place{};  // this entry, unless it is in the idle list
  std::list<Entry*>::iterator own_place{};

  bool Covers(uint64_t from, uint64_t length) const {
    return from >= start && length <= bytes && from - start <= bytes - length;
  }
  bool Overlaps(uint64_t from, uint64_t length) const {
    return length != 0 && (from < start ? start - from < length : from - start < bytes);
  }
  bool IsOf(const std::vector<PointerInfo>& wanted) const {
    return std::all_of(wanted.begin(), wanted.end(), [this](const PointerInfo& piece) {
      return std::find(pieces.begin(), pieces.end(), piece) != pieces.end();
    });
  }
  /// Returns whether every piece has an identity, so that other memory cannot be mistaken for it. Memory that
  /// the driver does not know has none.
  bool IsIdentified() const {
    return std::all_of(pieces.begin(), pieces.end(),
                       [](const PointerInfo& piece) { return piece.buffer_id != 0; });
  }
};

/// State that the cache shares with its leases.
///
/// No listed entry covers another one. So sorting by start also sorts by end, and of the entries that start
/// at or before an address the last one reaches furthest.
///
/// Release paths cannot report that memory has run out, so nothing below allocates, except List(): entries
/// move between the index, the idle list and the garbage.
struct RegionCache::Shelf {
  using Entries = std::multimap<uint64_t, std::shared_ptr<Entry>>;  // by start

  explicit Shelf(const RegionCacheConfig& options) : config(options) {}

  /// Returns the listed entry that covers a range, if the memory is still the same. Removes stale entries: if
  /// none is found, no listed entry covers the range.
  ///
  /// @param garbage  entries to destroy after the lock is released, because that calls the kernel
  std::shared_ptr<Entry> Find(uint64_t start, uint64_t length, const std::vector<PointerInfo>& pieces,
                              Entries& garbage) WARPVERBS_REQUIRES(mutex) {
    while (true) {
      const auto next = index.upper_bound(start);
      if (next == index.begin()) return nullptr;
      std::shared_ptr<Entry> entry = std::prev(next)->second;
      if (!entry->Covers(start, length)) return nullptr;
      if (entry->IsOf(pieces)) return entry;
      ++statistics.stale;
      Unlist(*entry, garbage);
    }
  }

  void List(const std::shared_ptr<Entry>& entry, Entries& garbage) WARPVERBS_REQUIRES(mutex) {
    for (auto next = index.lower_bound(entry->start);
         next != index.end() && entry->Covers(next->second->start, next->second->bytes);) {
      Unlist(*(next++)->second, garbage);
    }
    index.emplace(entry->start, entry);
    entry->listed = true;
    ++statistics.regions;
    statistics.bytes += entry->bytes;
  }

  /// Takes an entry out of the index. It is destroyed once it is not in use.
  void Unlist(Entry& entry, Entries& garbage) WARPVERBS_REQUIRES(mutex) {
    garbage.insert(index.extract(index.find(entry.start)));
    entry.listed = false;
    if (entry.uses != 0) return;
    LeaveIdle(entry);
    Retire(entry);
  }

  void Retire(const Entry& entry) WARPVERBS_REQUIRES(mutex) {
    --statistics.regions;
    statistics.bytes -= entry.bytes;
  }

  void LeaveIdle(Entry& entry) WARPVERBS_REQUIRES(mutex) {
    entry.place.splice(entry.place.begin(), idle, entry.own_place);
  }

  void Use(Entry& entry) WARPVERBS_REQUIRES(mutex) {
    if (entry.uses++ != 0) return;
    ++statistics.in_use;
    if (entry.place.empty()) LeaveIdle(entry);
  }

  /// @pre  the caller holds a reference to the entry until this returns
  void Release(Entry& entry) {
    Entries garbage;
    const sync::LockGuard lock(mutex);
    if (--entry.uses != 0) return;
    --statistics.in_use;
    if (!entry.listed) return Retire(entry);
    idle.splice(idle.begin(), entry.place);
    const bool keep = !closed && (config.keep_host_memory || entry.IsIdentified());
    if (!keep) return Unlist(entry, garbage);
    Evict(garbage);
  }

  void Evict(Entries& garbage) WARPVERBS_REQUIRES(mutex) {
    while ((statistics.regions > config.max_regions || statistics.bytes > config.max_bytes) &&
           !idle.empty()) {
      ++statistics.evictions;
      Unlist(*idle.back(), garbage);
    }
  }

  void Clear(Entries& garbage) WARPVERBS_REQUIRES(mutex) {
    while (!idle.empty()) Unlist(*idle.back(), garbage);
  }

  const OwnerProcess owner;
  const RegionCacheConfig config;
  sync::Mutex mutex;
  bool closed WARPVERBS_GUARDED_BY(mutex) = false;  // the cache is destroyed
  std::map<uint64_t, std::shared_ptr<Entry>> index WARPVERBS_GUARDED_BY(mutex);
  std::list<Entry*> idle WARPVERBS_GUARDED_BY(mutex);  // most recently used first
  RegionCacheStatistics statistics WARPVERBS_GUARDED_BY(mutex);
};

RegionCache::RegionCache(std::vector<const Device*> devices, const RegionCacheConfig& config)
    : devices_(std::move(devices)), shelf_(std::make_shared<Shelf>(config)) {}

RegionCache::~RegionCache() {
  if (!shelf_->owner.IsThisOne()) {
    Abandon(shelf_);
    return;
  }
  Shelf::Entries garbage;
  const sync::LockGuard lock(shelf_->mutex);
  shelf_->closed = true;
  shelf_->Clear(garbage);
}

RegionCache::Lease RegionCache::Register(void* memory, size_t bytes) {
  const auto start = reinterpret_cast<uint64_t>(memory);
  const std::vector<PointerInfo> pieces = DescribeRange(memory, bytes);
  Shelf& shelf = *shelf_;
  Shelf::Entries garbage;
  const auto take = [&](const std::shared_ptr<Entry>& entry, bool reused) WARPVERBS_REQUIRES(shelf.mutex) {
    shelf.Use(*entry);
    return Lease(shelf_, entry, start - entry->start, bytes, reused);
  };
  {
    const sync::LockGuard lock(shelf.mutex);
    if (const auto known = shelf.Find(start, bytes, pieces, garbage)) {
      ++shelf.statistics.hits;
      return take(known, true);
    }
    ++shelf.statistics.misses;
  }
  const auto make = [&] {
    auto entry = std::make_shared<Entry>(
        Entry{start, bytes, pieces, RegionSet(devices_, memory, bytes, shelf.config.access)});
    entry->own_place = entry->place.insert(entry->place.begin(), entry.get());
    return entry;
  };
  std::shared_ptr<Entry> made;
  try {
    made = make();
  } catch (const Error& error) {
    if (!IsOutOfResources(error.error_number())) throw;
    Clear();
    made = make();
  }
  const sync::LockGuard lock(shelf.mutex);
  // Another thread may have registered the range meanwhile.
  if (const auto known = shelf.Find(start, bytes, pieces, garbage)) return take(known, true);
  shelf.List(made, garbage);
  Lease lease = take(made, false);
  shelf.Evict(garbage);
  return lease;
}

void RegionCache::Invalidate(const void* memory, size_t bytes) {
  const auto start = reinterpret_cast<uint64_t>(memory);
  Shelf::Entries garbage;
  const sync::LockGuard lock(shelf_->mutex);
  auto& index = shelf_->index;
  auto first = index.upper_bound(start);
  while (first != index.begin() && std::prev(first)->second->Overlaps(start, bytes)) --first;
  while (first != index.end() && first->second->Overlaps(start, bytes)) {
    ++shelf_->statistics.stale;
    shelf_->Unlist(*(first++)->second, garbage);
  }
}

void RegionCache::Clear() {
  Shelf::Entries garbage;
  const sync::LockGuard lock(shelf_->mutex);
  shelf_->Clear(garbage);
}

RegionCacheStatistics RegionCache::Statistics() const {
  const sync::LockGuard lock(shelf_->mutex);
  return shelf_->statistics;
}

RegionCache::Lease::Lease(std::shared_ptr<Shelf> shelf, std::shared_ptr<Entry> entry, uint64_t offset,
                          uint64_t bytes, bool reused)
    : shelf_(std::move(shelf)), entry_(std::move(entry)), offset_(offset), bytes_(bytes), reused_(reused) {}

RegionCache::Lease& RegionCache::Lease::operator=(Lease&& other) noexcept {
  Lease old(std::move(*this));
  shelf_ = std::move(other.shelf_);
  entry_ = std::move(other.entry_);
  offset_ = other.offset_;
  bytes_ = other.bytes_;
  reused_ = other.reused_;
  return *this;
}

RegionCache::Lease::~Lease() {
  if (!entry_) return;
  if (shelf_->owner.IsThisOne()) {
    shelf_->Release(*entry_);
  } else {
    Abandon(shelf_);
    Abandon(entry_);
  }
}

MemoryView RegionCache::Lease::View(size_t device) const {
  return entry_->regions.View(device).Subrange(offset_, bytes_);
}

MemoryView RegionCache::Lease::View(const Device& device) const {
  return entry_->regions.View(device).Subrange(offset_, bytes_);
}

}  // namespace warpverbs::inline v0_2::host
