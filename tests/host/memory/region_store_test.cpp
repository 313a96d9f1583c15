#include "memory/region_store.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "host/log/refusal.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/mlx5/endian.hpp"

namespace warpverbs::host {
namespace {

MemoryView View(uint64_t addr, const Access& access) {
  return {.addr = addr, .bytes = 64, .lkey = 0x1234, .rkey = 0x5678, .access = access};
}

class RegionStoreTest : public testing::Test {
 protected:
  std::unique_ptr<RegionStore> store_ = std::make_unique<RegionStore>();
};

TEST_F(RegionStoreTest, UsesLkeysForLocalAndRkeysForRemoteRegions) {
  const MemoryView local[] = {View(0x1000, {})}, remote[] = {View(0x2000, {.remote_write = true})};
  store_->Allow(local, remote);
  ASSERT_EQ(store_->table.count, 2);
  const device::Region* const regions = store_->table.regions;
  EXPECT_EQ(regions[0].addr, 0x1000);
  EXPECT_EQ(regions[0].bytes, 64);
  EXPECT_EQ(regions[0].key_be, mlx5::ToBe32(0x1234).raw);
  EXPECT_EQ(regions[0].rights, device::kLocal | device::kWritable);
  EXPECT_EQ(regions[1].addr, 0x2000);
  EXPECT_EQ(regions[1].key_be, mlx5::ToBe32(0x5678).raw);
  EXPECT_EQ(regions[1].rights, device::kWritable);
}

TEST_F(RegionStoreTest, GrantsTheRegionsAccess) {
  const MemoryView local[] = {View(0, {.local_write = false}),
                              View(0, {.local_write = false, .remote_read = true}),
                              View(0, {.local_write = false, .remote_atomic = true})};
  const MemoryView remote[] = {View(0, {}), View(0, {.remote_read = true}), View(0, {.remote_atomic = true}),
                               View(0, {.remote_write = true, .relaxed_ordering = true})};
  store_->Allow(local, remote);
  const uint32_t rights[] = {device::kLocal,    device::kLocal,  device::kLocal | device::kWritable,  0,
                             device::kReadable, device::kAtomic, device::kWritable | device::kRelaxed};
  for (size_t i = 0; i < std::size(rights); ++i) EXPECT_EQ(store_->table.regions[i].rights, rights[i]) << i;
}

TEST_F(RegionStoreTest, RejectsViewsOfNoRegionAndKeepsTheOldTable) {
  const MemoryView right[] = {View(0x1000, {})}, wrong[] = {View(0x2000, {}), {.addr = 0x3000, .bytes = 8}};
  store_->Allow(right, right);
  const auto why = [this](std::span<const MemoryView> local, std::span<const MemoryView> remote) {
    return WhyRefused([&] { store_->Allow(local, remote); });
  };
  EXPECT_EQ(
      why(wrong, right),
      "Cannot allow 8 bytes: their lkey is 0, so they belong to no region. Register the memory, and pass the "
      "view of its region.");
  EXPECT_NE(why(right, wrong).find("their rkey is 0"), std::string::npos);
  EXPECT_EQ(store_->table.count, 2);
  EXPECT_EQ(store_->table.regions[1].addr, 0x1000);
}

TEST_F(RegionStoreTest, ReplacesTheOldTable) {
  const MemoryView first[] = {View(0x1000, {}), View(0x2000, {})}, second[] = {View(0x3000, {})};
  store_->Allow(first, {});
  store_->Allow(second, {});
  ASSERT_EQ(store_->table.count, 1);
  EXPECT_EQ(store_->table.regions[0].addr, 0x3000);
  store_->Allow({}, {});
  EXPECT_EQ(store_->table.count, 0);
}

TEST_F(RegionStoreTest, RejectsMoreThanTheMaximum) {
  std::vector<MemoryView> local(kMaxRegions - 1, View(0x1000, {}));
  const MemoryView remote[] = {View(0x2000, {})};
  store_->Allow(local, remote);
  EXPECT_EQ(store_->table.count, kMaxRegions);
  EXPECT_EQ(store_->table.regions[kMaxRegions - 1].addr, 0x2000);
  local.push_back(View(0x1000, {}));
  try {
    store_->Allow(local, remote);
    FAIL() << "accepted too many";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "Cannot allow 129 regions on one endpoint: a checked build takes at most 128. Register fewer, "
        "larger regions, or allow only those that this endpoint uses.");
  }
}

}  // namespace
}  // namespace warpverbs::host
