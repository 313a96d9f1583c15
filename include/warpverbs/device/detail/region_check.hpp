#pragma once

#include "warpverbs/device/memory.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/device/status.hpp"

/// Checks that come before a post. Define WARPVERBS_CHECKED for the whole program or nowhere.
namespace warpverbs::inline v0_2::device {

/// Returns false if the NIC may not see what `A` releases: the queue is in host memory, and the releases of
/// `A` reach its own GPU only.
template <arch::Arch A>
WARPVERBS_DEVICE bool ReleasesFarEnough(uint32_t queue_flags) {
  return A::kReleaseScope == arch::Scope::kSystem || (queue_flags & kNeedsSystemScope) == 0;
}

#ifdef WARPVERBS_CHECKED
inline constexpr bool kChecked = true;
#else
inline constexpr bool kChecked = false;
#endif

/// The memory that an operation accesses.
struct Footprint {
  RemoteMemory remote = {};
  uint64_t remote_bytes = 0;
  uint32_t remote_rights = 0;  ///< Rights that the peer must have granted; 0: no access
  LocalMemory local = {};
  LocalMemory second = {};
  bool written = false;    ///< whether the NIC writes to the local memory
  uint32_t alignment = 1;  ///< required alignment of the remote address
  bool in_order = false;   ///< whether the remote access must be ordered with other writes
};

/// Compares operations with the regions that the host knows. Without a table it checks only the alignment.
class RegionCheck {
 public:
  WARPVERBS_DEVICE explicit RegionCheck(const RegionTable* table) : table_(table) {}

  WARPVERBS_DEVICE RequestError Find(const Footprint& footprint) const {
    if (footprint.remote.addr % footprint.alignment != 0) return RequestError::kMisaligned;
    if (table_ == nullptr) return RequestError::kNone;
    const uint32_t local_rights = kLocal | (footprint.written ? kWritable : 0u);
    const LocalMemory entries[] = {footprint.local, footprint.second};
    for (const LocalMemory& local : entries) {
      if (local.bytes == 0) continue;
      const RequestError error = FindRegion({local.addr, local.bytes, local.lkey.raw, local_rights});
      if (error != RequestError::kNone) return error;
    }
    if (footprint.remote_rights == 0 || footprint.remote_bytes == 0) return RequestError::kNone;
    return FindRegion(
        {footprint.remote.addr, footprint.remote_bytes, footprint.remote.rkey.raw, footprint.remote_rights},
        footprint.in_order);
  }

 private:
  /// Checks against the one region that has the key.
  WARPVERBS_DEVICE RequestError FindRegion(const Region& wanted, bool in_order = false) const {
    const bool local = (wanted.rights & kLocal) != 0;
    RequestError unknown = local ? RequestError::kUnknownLkey : RequestError::kUnknownRkey;
    for (uint32_t i = 0; i < table_->count; ++i) {
      const Region& region = table_->regions[i];
      if (((region.rights & kLocal) != 0) != local) continue;
      if (Swapped(region.key_be) == wanted.key_be) unknown = RequestError::kSwappedKey;
      if (region.key_be != wanted.key_be) continue;
      const uint64_t offset = wanted.addr - region.addr;
      if (offset > region.bytes || wanted.bytes > region.bytes - offset) {
        return local ? RequestError::kLocalOutOfBounds : RequestError::kRemoteOutOfBounds;
      }
      if (in_order && (region.rights & kRelaxed) != 0) return RequestError::kRelaxedOrdering;
      if ((wanted.rights & ~region.rights) == 0) return RequestError::kNone;
      return local ? RequestError::kLocalReadOnly : RequestError::kRemoteRights;
    }
    return unknown;
  }

  static WARPVERBS_DEVICE uint32_t Swapped(uint32_t key) {
    return key << 24 | (key & 0xff00) << 8 | (key >> 8 & 0xff00) | key >> 24;
  }

  const RegionTable* table_;
};

}  // namespace warpverbs::inline v0_2::device
