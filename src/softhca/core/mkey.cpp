#include "core/mkey.hpp"

#include <algorithm>

namespace softhca {
namespace {

constexpr uint32_t kFirstIndex = 0x100;  // with index 0, a zeroed segment would name a valid key by accident
constexpr uint32_t kIndices = 0x1000000 - kFirstIndex;

}  // namespace

uint32_t MkeyTable::Add(const Mkey& mkey, std::optional<uint8_t> variant) {
  // The low byte varies with each use of an index, so that a key kept past its deregistration is detected.
  uint32_t key = 0;
  do {
    const uint32_t serial = next_index_++;
    key = (kFirstIndex + serial % kIndices) << 8 | variant.value_or((serial + serial / kIndices) % 0xff);
  } while (mkeys_.contains(key));
  mkeys_.emplace(key, mkey);
  return key;
}

const Mkey* MkeyTable::Find(uint32_t key) const {
  const auto found = mkeys_.find(key);
  return found == mkeys_.end() ? nullptr : &found->second;
}

bool MkeyTable::UsesPd(uint32_t pdn) const {
  return std::any_of(mkeys_.begin(), mkeys_.end(),
                     [&](const auto& entry) { return entry.second.pdn == pdn; });
}

Bytes MkeyTable::Translate(uint32_t key, uint32_t pdn, uint64_t iova, uint64_t bytes, uint32_t access) const {
  const auto found = mkeys_.find(key);
  if (found == mkeys_.end()) return {};
  const Mkey& mkey = found->second;
  const uint64_t offset = iova - mkey.iova;  // wraps to a huge offset if iova is below the range
  const bool inside = offset <= mkey.bytes && bytes <= mkey.bytes - offset;
  if (mkey.pdn != pdn || !inside || (mkey.access & access) != access) return {};
  return {mkey.memory + offset, static_cast<size_t>(bytes)};
}

bool MkeyTable::Revoke(uint32_t key, uint32_t pdn) {
  const auto found = mkeys_.find(key);
  if (found == mkeys_.end() || found->second.pdn != pdn || !found->second.revocable) return false;
  found->second.revocable = false;
  found->second.access &= kAccessLocalWrite;
  return true;
}

}  // namespace softhca
