#include "memory/region_store.hpp"

#include <string>

#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/endian.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

/// Rejects the key 0, which no region has and every default-initialized view has.
void CheckKey(const MemoryView& view, uint32_t key, const char* name) {
  if (key != 0) return;
  throw Error("allow", std::to_string(view.bytes) + " bytes",
              std::string("their ") + name + " is 0, so they belong to no region",
              "Register the memory, and pass the view of its region");
}

device::Region LocalRegion(const MemoryView& view) {
  const uint32_t rights = device::kLocal | (view.access.nic_writes() ? device::kWritable : 0u);
  return {view.addr, view.bytes, mlx5::ToBe32(view.lkey).raw, rights};
}

device::Region RemoteRegion(const MemoryView& view) {
  const uint32_t rights = (view.access.remote_write ? device::kWritable : 0u) |
                          (view.access.remote_read ? device::kReadable : 0u) |
                          (view.access.remote_atomic ? device::kAtomic : 0u) |
                          (view.access.relaxed_ordering ? device::kRelaxed : 0u);
  return {view.addr, view.bytes, mlx5::ToBe32(view.rkey).raw, rights};
}

}  // namespace

void RegionStore::Allow(std::span<const MemoryView> local, std::span<const MemoryView> remote) {
  const size_t count = local.size() + remote.size();
  if (count > kMaxRegions) {
    throw Error("allow", std::to_string(count) + " regions on one endpoint",
                "a checked build takes at most " + std::to_string(kMaxRegions),
                "Register fewer, larger regions, or allow only those that this endpoint uses");
  }
  for (const MemoryView& view : local) CheckKey(view, view.lkey, "lkey");
  for (const MemoryView& view : remote) CheckKey(view, view.rkey, "rkey");
  auto* next = regions.data();
  for (const MemoryView& view : local) *next++ = LocalRegion(view);
  for (const MemoryView& view : remote) *next++ = RemoteRegion(view);
  table = {.regions = regions.data(), .count = static_cast<uint32_t>(count)};
}

}  // namespace warpverbs::inline v0_2::host
