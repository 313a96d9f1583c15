// Where the blocks of a cache are: in a file of slots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <vector>

/// Finds the slots of blocks by their keys. The oldest block makes room for a new one. Thread-safe.
class BlockIndex {
 public:
  /// @param slots  more than the threads that use it
  explicit BlockIndex(size_t slots) : free_(slots) { std::iota(free_.begin(), free_.end(), size_t{0}); }

  /// Returns the slot of a block, and keeps it until Release(); empty: a miss.
  std::optional<size_t> Find(uint64_t key) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(key);
    if (found == blocks_.end()) return std::nullopt;
    ++found->second.users;
    return found->second.slot;
  }
  void Release(uint64_t key) {
    const std::lock_guard lock(mutex_);
    --blocks_.at(key).users;
  }

  /// Takes a slot for a new block, until Insert().
  size_t Take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) Evict();
    const size_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void Insert(uint64_t key, size_t slot) {
    const std::lock_guard lock(mutex_);
    blocks_[key] = {.slot = slot};
    by_age_.push_back(key);
  }

  /// Returns the key of a block that is there; empty: there is none.
  std::optional<uint64_t> SomeKey(uint64_t random) const {
    const std::lock_guard lock(mutex_);
    if (by_age_.empty()) return std::nullopt;
    return by_age_[random % by_age_.size()];
  }

 private:
  struct Block {
    size_t slot = 0;
    int users = 0;
  };

  void Evict() {
    const auto oldest = std::find_if(by_age_.begin(), by_age_.end(),
                                     [this](uint64_t key) { return blocks_.at(key).users == 0; });
    if (oldest == by_age_.end()) throw std::logic_error("The cache has fewer slots than users.");
    free_.push_back(blocks_.at(*oldest).slot);
    blocks_.erase(*oldest);
    by_age_.erase(oldest);
  }

  mutable std::mutex mutex_;
  std::vector<size_t> free_;
  std::unordered_map<uint64_t, Block> blocks_;
  std::deque<uint64_t> by_age_;  // keys of all blocks, the oldest first
};
