#include "buffer/shared_here.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <set>

#include "device/owner_process.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/pointer_info.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

struct SharedRange {
  uint64_t address, bytes, buffer_id;
  friend auto operator<=>(const SharedRange&, const SharedRange&) = default;
};

SharedRange RangeOf(const SharedMemoryInfo& info) { return {info.address, info.bytes, info.buffer_id}; }

bool IsFreed(const SharedRange& range) {
  return DescribePointer(reinterpret_cast<const void*>(range.address)).buffer_id != range.buffer_id;
}

/// The ranges that this process has shared by IPC. A program shares many in its life and tells nobody when
/// it frees one, so freed ranges are dropped whenever their number could have doubled.
class SharedRanges {
 public:
  void Add(const SharedRange& range) {
    const sync::LockGuard lock(mutex_);
    if (ranges_.size() >= most_) {
      std::erase_if(ranges_, IsFreed);
      most_ = std::max(kFew, 2 * ranges_.size());
    }
    ranges_.insert(range);
  }

  bool Has(const SharedRange& range) const {
    const sync::LockGuard lock(mutex_);
    return ranges_.contains(range);
  }

 private:
  static constexpr size_t kFew = 64;

  mutable sync::Mutex mutex_;
  std::set<SharedRange> ranges_ WARPVERBS_GUARDED_BY(mutex_);
  size_t most_ WARPVERBS_GUARDED_BY(mutex_) = kFew;
};

const PerProcess<SharedRanges> shared_ranges;

}  // namespace

void RememberSharedHere(const SharedMemoryInfo& info) { (*shared_ranges).Add(RangeOf(info)); }
bool IsSharedHere(const SharedMemoryInfo& info) { return (*shared_ranges).Has(RangeOf(info)); }

}  // namespace warpverbs::inline v0_2::host
