#pragma once

#include "warpverbs/device/memory.hpp"
#include "warpverbs/device/status.hpp"

/// What a checked build looks at before it posts. Define WARPVERBS_CHECKED for the whole program or nowhere.
namespace warpverbs::inline v0_2::device {

#ifdef WARPVERBS_CHECKED
inline constexpr bool kChecked = true;
#else
inline constexpr bool kChecked = false;
#endif

/// The memory that an operation touches.
struct Footprint {
  RemoteMemory remote = {};
  uint64_t remote_bytes = 0;
  uint32_t remote_rights = 0;  ///< Rights that the peer must have granted; 0: it touches nothing there
  LocalMemory local = {};
  LocalMemory second = {};
  bool written = false;    ///< the NIC writes to the local memory
  uint32_t alignment = 1;  ///< of the remote address
  bool in_order = false;   ///< what it does there must be seen in order with other writes
};

/// Holds an operation against the regions that the host knows; without a table, against the alignment only.
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
      const RequestError mistake = FindRegion({local.addr, local.bytes, local.lkey.raw, local_rights});
      if (mistake != RequestError::kNone) return mistake;
    }
    if (footprint.remote_rights == 0 || footprint.remote_bytes == 0) return RequestError::kNone;
    return FindRegion(
        {footprint.remote.addr, footprint.remote_bytes, footprint.remote.rkey.raw, footprint.remote_rights},
        footprint.in_order);
  }

 private:
  /// Looks for the region of a key: one at most has it.
  WARPVERBS_DEVICE RequestError FindRegion(const Region& wanted, bool in_order = false) const {
    const bool local = (wanted.rights & kLocal) != 0;
    for (uint32_t i = 0; i < table_->count; ++i) {
      const Region& region = table_->regions[i];
      if (region.key_be != wanted.key_be || ((region.rights & kLocal) != 0) != local) continue;
      const uint64_t offset = wanted.addr - region.addr;
      if (offset > region.bytes || wanted.bytes > region.bytes - offset) {
        return local ? RequestError::kLocalOutOfBounds : RequestError::kRemoteOutOfBounds;
      }
      if (in_order && (region.rights & kRelaxed) != 0) return RequestError::kRelaxedOrdering;
      if ((wanted.rights & ~region.rights) == 0) return RequestError::kNone;
      return local ? RequestError::kLocalReadOnly : RequestError::kRemoteRights;
    }
    return local ? RequestError::kUnknownLkey : RequestError::kUnknownRkey;
  }

  const RegionTable* table_;
};

}  // namespace warpverbs::inline v0_2::device
