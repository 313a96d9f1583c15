#include "warpverbs/host/region_store.hpp"

#include <string>

#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/endian.hpp"

namespace warpverbs::host {
namespace {

device::Region LocalRegion(const MemoryView& view) {
  const uint32_t rights = device::kLocal | (view.access.nic_writes() ? device::kWritable : 0u);
  return {view.addr, view.bytes, mlx5::ToBe32(view.lkey).raw, rights};
}

device::Region RemoteRegion(const MemoryView& view) {
  const uint32_t rights = (view.access.remote_write ? device::kWritable : 0u) |
                          (view.access.remote_read ? device::kReadable : 0u) |
                          (view.access.remote_atomic ? device::kAtomic : 0u);
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
  auto* next = regions.data();
  for (const MemoryView& view : local) *next++ = LocalRegion(view);
  for (const MemoryView& view : remote) *next++ = RemoteRegion(view);
  table = {.regions = regions.data(), .count = static_cast<uint32_t>(count)};
}

}  // namespace warpverbs::host
