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

bool MkeyTable::Remove(uint32_t key) {
  const auto found = entries_.find(IndexOf(key));
  if (found == entries_.end()) return false;
  // Work requests change the low byte of an indirect key.
  if (!found->second.mkey.layout && found->second.variant != (key & 0xff)) return false;
  entries_.erase(found);
  return true;
}

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

bool MkeyTable::UsesCardMemory(uint32_t number) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const auto& entry) { return entry.second.mkey.card_memory == number; });
}

bool MkeyTable::HasWindow(uint32_t region_key) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    const Mkey& mkey = entry.second.mkey;
    return mkey.window && !mkey.free && mkey.window->key == region_key;
  });
}

bool MkeyTable::Resolve(const KeyRange& range, uint32_t access, Pieces& to, uint32_t qpn, int depth) const {
  const Mkey* const mkey = Find(range.key);
  if (mkey == nullptr) {
    const bool local = (access & ~uint32_t{kAccessLocalWrite}) == 0;
    if (range.key != kNullKey || !local) return false;
    to.Add(NullMemory(range.bytes));
    return true;
  }
  if (!Serves(*mkey, qpn) || !Allows(*mkey, range.pdn, range.iova, range.bytes, access)) return false;
  const uint64_t offset = range.iova - mkey->iova;
  if (mkey->window) {
    // The region may have changed, or gone, since the window was bound.
    const KeyRange part{mkey->window->key, range.pdn, mkey->window->address + offset, range.bytes};
    return depth == 0 && Resolve(part, RegionAccess(access), to, qpn, depth + 1);
  }
  if (mkey->layout) {
    const KeyRange part{range.key, range.pdn, offset, range.bytes};
    return depth < kMaxIndirection &&
           ResolveLayout(*mkey->layout, part, RegionAccess(access), to, qpn, depth + 1);
  }
  to.Add({mkey->memory + offset, static_cast<size_t>(range.bytes)});
  return true;
}

/// @param range  with an offset from the key's first byte in place of the address
bool MkeyTable::ResolveLayout(const Layout& layout, const KeyRange& range, uint32_t access, Pieces& to,
                              uint32_t qpn, int depth) const {
  uint64_t once = 0;
  for (const Layout::Piece& piece : layout.pieces) once += piece.bytes;
  if (once == 0) return range.bytes == 0;
  uint64_t skip = range.iova % once;
  uint64_t rest = range.bytes;
  for (uint64_t repetition = range.iova / once; rest != 0; ++repetition) {
    if (repetition >= layout.repetitions) return false;
    for (const Layout::Piece& piece : layout.pieces) {
      if (skip >= piece.bytes) {
        skip -= piece.bytes;
        continue;
      }
      const uint64_t part = std::min(rest, piece.bytes - skip);
      const uint64_t address = piece.address + repetition * piece.stride + skip;
      if (!Resolve({piece.key, range.pdn, address, part}, access, to, qpn, depth)) return false;
      rest -= part;
      skip = 0;
      if (rest == 0) return true;
    }
  }
  return true;
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
  const bool frees_layout = change.free && mkey.layout && mkey.layout_room != 0;
  if ((!mkey.window && !frees_layout) || mkey.pdn != pdn) return false;
  if (change.only_free && !mkey.free) return false;
  const bool own = frees_layout ? Serves(mkey, qpn) : !mkey.free && mkey.qpn == qpn;
  if (change.only_own && (!own || variant != (change.key & 0xff))) return false;
  if (!change.free && !MayBind(change, pdn)) return false;
  variant = change.variant;
  mkey.free = change.free;
  if (frees_layout) return true;
  mkey.qpn = change.qpn.value_or(mkey.qpn);
  mkey.access = change.access;
  mkey.iova = change.iova;
  mkey.bytes = change.bytes;
  mkey.window = change.target;
  return true;
}

bool MkeyTable::ChangeLayout(const LayoutChange& change, uint32_t pdn) {
  const auto found = entries_.find(IndexOf(change.key));
  if (found == entries_.end()) return false;
  auto& [variant, mkey] = found->second;
  if (!mkey.layout || mkey.pdn != pdn || change.layout_size > mkey.layout_room) return false;
  variant = change.variant;
  mkey.free = false;
  mkey.access = (mkey.access & ~change.changed_access) | change.access;
  mkey.bytes = change.bytes.value_or(mkey.bytes);
  if (change.layout) mkey.layout = change.layout;
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
