#include "queue/free_space.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "queue/queue_layout.hpp"
#include "sync/mutex.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

size_t WholeGrains(size_t bytes) { return AlignUp(std::max<size_t>(bytes, 1), FreeSpace::kGrain); }

}  // namespace

FreeSpace::FreeSpace(size_t bytes) {
  if (const size_t whole = bytes / kGrain * kGrain; whole != 0) free_.emplace(0, whole);
}

std::optional<size_t> FreeSpace::Take(size_t bytes) {
  const size_t whole = WholeGrains(bytes);
  const sync::LockGuard lock(mutex_);
  const auto found =
      std::find_if(free_.begin(), free_.end(), [whole](const auto& place) { return place.second >= whole; });
  if (found == free_.end()) return std::nullopt;
  const auto [offset, length] = *found;
  const auto taken = taken_.emplace(offset, whole).first;
  try {
    if (length > whole) free_.emplace_hint(std::next(found), offset + whole, length - whole);
  } catch (...) {
    taken_.erase(taken);
    throw;
  }
  free_.erase(found);
  used_ += whole;
  return offset;
}

void FreeSpace::Give(size_t offset) noexcept {
  const sync::LockGuard lock(mutex_);
  auto node = taken_.extract(offset);
  const size_t bytes = node.mapped();
  auto place = free_.insert(std::move(node)).position;
  if (place != free_.begin()) {
    const auto before = std::prev(place);
    if (before->first + before->second == offset) {
      before->second += bytes;
      free_.erase(place);
      place = before;
    }
  }
  if (const auto after = std::next(place);
      after != free_.end() && place->first + place->second == after->first) {
    place->second += after->second;
    free_.erase(after);
  }
  used_ -= bytes;
}

size_t FreeSpace::used() const {
  const sync::LockGuard lock(mutex_);
  return used_;
}

}  // namespace warpverbs::inline v0_2::host
