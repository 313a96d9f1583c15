#include "core/mkey.hpp"

#include <algorithm>

#include "dma/null_memory.hpp"

namespace softhca {
namespace {

constexpr uint32_t kFirstIndex = 0x100;  // with index 0, a zeroed segment would name a valid key by accident
constexpr uint32_t kIndices = 0x1000000 - kFirstIndex;

uint32_t IndexOf(uint32_t key) { return key >> 8; }

/// Returns whether a key that is in use allows an access to a range.
bool Allows(const Mkey& mkey, uint32_t pdn, uint64_t iova, uint64_t bytes, uint32_t access) {
  const uint64_t offset = iova - mkey.iova;  // wraps to a huge offset if iova is below the range
  const bool inside = offset <= mkey.bytes && bytes <= mkey.bytes - offset;
  return inside && mkey.pdn == pdn && (mkey.access & access) == access;
}

/// Returns whether the peers of a queue pair, or the queue pair itself, may use a key.
bool Serves(const Mkey& mkey, uint32_t qpn) {
  return !mkey.free && (mkey.qpn == mlx5::kAnyQpn || mkey.qpn == qpn);
}

/// Returns the rights that a region needs for an access through a window: the window grants the remote ones.
uint32_t RegionAccess(uint32_t access) {
  constexpr uint32_t kChanges = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteAtomic;
  return (access & kChanges) != 0 ? kAccessLocalWrite : kAccessLocalRead;
}

}  // namespace

uint32_t MkeyTable::Add(const Mkey& mkey, std::optional<uint8_t> variant) {
  // The low byte varies with each use of an index, so that a key kept past its deregistration is detected.
  uint32_t serial = next_serial_++;
  while (entries_.contains(kFirstIndex + serial % kIndices)) serial = next_serial_++;
  const uint32_t index = kFirstIndex + serial % kIndices;
  const auto low = variant.value_or(static_cast<uint8_t>((serial + serial / kIndices) % 0xff));
  entries_.emplace(index, Entry{low, mkey});
  return index << 8 | low;
}

bool MkeyTable::Remove(uint32_t key) { return Find(key) != nullptr && entries_.erase(IndexOf(key)) != 0; }

bool MkeyTable::RemoveWindow(uint32_t key) { return entries_.erase(IndexOf(key)) != 0; }

void MkeyTable::Replace(uint32_t key, const Mkey& mkey) { entries_.at(IndexOf(key)).mkey = mkey; }

const Mkey* MkeyTable::Find(uint32_t key) const {
  const auto found = entries_.find(IndexOf(key));
  return found == entries_.end() || found->second.variant != (key & 0xff) ? nullptr : &found->second.mkey;
}

bool MkeyTable::UsesPd(uint32_t pdn) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const auto& entry) { return entry.second.mkey.pdn == pdn; });
}

Bytes MkeyTable::Translate(uint32_t key, uint32_t pdn, uint64_t iova, uint64_t bytes, uint32_t access,
                           uint32_t qpn) const {
  const Mkey* mkey = Find(key);
  if (mkey == nullptr) {
    const bool local = (access & ~uint32_t{kAccessLocalWrite}) == 0;
    return key == kNullKey && local ? NullMemory(bytes) : Bytes{};
  }
  if (!Serves(*mkey, qpn) || !Allows(*mkey, pdn, iova, bytes, access)) return {};
  uint64_t offset = iova - mkey->iova;
  if (mkey->window) {
    // The region may have changed, or gone, since the window was bound.
    const uint64_t address = mkey->window->address + offset;
    mkey = Find(mkey->window->key);
    if (mkey == nullptr || mkey->window || mkey->free) return {};
    if (!Allows(*mkey, pdn, address, bytes, RegionAccess(access))) return {};
    offset = address - mkey->iova;
  }
  return {mkey->memory + offset, static_cast<size_t>(bytes)};
}

bool MkeyTable::MayBind(const WindowChange& change, uint32_t pdn) const {
  const Mkey* const region = Find(change.target.key);
  return region != nullptr && !region->window && !region->free &&
         Allows(*region, pdn, change.target.address, change.bytes, RegionAccess(change.access));
}

bool MkeyTable::Change(const WindowChange& change, uint32_t pdn, uint32_t qpn) {
  const auto found = entries_.find(IndexOf(change.key));
  if (found == entries_.end()) return false;
  auto& [variant, mkey] = found->second;
  if (!mkey.window || mkey.pdn != pdn) return false;
  if (change.only_free && !mkey.free) return false;
  if (change.only_own && (mkey.free || mkey.qpn != qpn || variant != (change.key & 0xff))) return false;
  if (!change.free && !MayBind(change, pdn)) return false;
  variant = change.variant;
  mkey.free = change.free;
  mkey.qpn = change.qpn.value_or(mkey.qpn);
  mkey.access = change.access;
  mkey.iova = change.iova;
  mkey.bytes = change.bytes;
  mkey.window = change.target;
  return true;
}

bool MkeyTable::Revoke(uint32_t key, uint32_t pdn, uint32_t qpn) {
  if (const Mkey* const mkey = Find(key);
      mkey == nullptr || mkey->pdn != pdn || !mkey->revocable || !Serves(*mkey, qpn)) {
    return false;
  }
  Mkey& mkey = entries_.at(IndexOf(key)).mkey;
  mkey.free = true;
  mkey.qpn = mlx5::kAnyQpn;
  return true;
}

}  // namespace softhca
