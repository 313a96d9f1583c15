// When cached registrations may be reused, and when not.
#include "warpverbs/host/region_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fake_cuda.hpp"
#include "host/gpu/driver_memory.hpp"
#include "host/log/refusal.hpp"
#include "host/memory/registration_calls.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::host {
namespace {

using testing::HasSubstr;

constexpr size_t kPage = 4096;

class RegionCacheTest : public testing::Test {
 protected:
  static int Exports() { return fake_cuda::Calls("cuMemGetHandleForAddressRange"); }

  /// Returns the current key of a range. A new registration has a different one.
  static uint32_t Key(RegionCache& cache, void* memory, size_t bytes) {
    return cache.Register(memory, bytes).View().rkey;
  }

  Device a_{"mlx5_0"}, b_{"mlx5_1"};
};

TEST_F(RegionCacheTest, ReusesARegistrationForACoveredRange) {
  const GpuMemory memory(Gpu(), 4 * kPage);
  RegionCache cache({&a_});
  const uint32_t key = Key(cache, memory.data(), 4 * kPage);
  const int exports = Exports(), registrations = Registrations();
  const RegionCache::Lease part = cache.Register(memory.data() + 100, 2 * kPage);
  EXPECT_EQ(part.View().rkey, key);
  EXPECT_EQ(part.View().addr, reinterpret_cast<uint64_t>(memory.data() + 100));
  EXPECT_EQ(part.View().bytes, 2 * kPage);
  EXPECT_EQ(Key(cache, memory.data() + 4 * kPage - 1, 1), key);
  EXPECT_EQ(Exports(), exports);
  EXPECT_EQ(Registrations(), registrations);
  EXPECT_EQ(cache.Statistics().hits, 2U);
  EXPECT_EQ(cache.Statistics().misses, 1U);
}

TEST_F(RegionCacheTest, ReplacesRegionsThatALargerOneCovers) {
  const GpuMemory memory(Gpu(), 4 * kPage);
  RegionCache cache({&a_});
  Key(cache, memory.data(), kPage);
  Key(cache, memory.data() + 2 * kPage, kPage);
  const uint32_t key = Key(cache, memory.data(), 4 * kPage);
  EXPECT_EQ(cache.Statistics().regions, 1U);
  EXPECT_EQ(cache.Statistics().bytes, 4 * kPage);
  EXPECT_EQ(Key(cache, memory.data() + 2 * kPage, kPage), key);
}

TEST_F(RegionCacheTest, FindsOverlappingRanges) {
  const GpuMemory memory(Gpu(), 4 * kPage);
  RegionCache cache({&a_});
  const uint32_t low = Key(cache, memory.data(), 2 * kPage);
  const uint32_t high = Key(cache, memory.data() + kPage, 2 * kPage);
  EXPECT_NE(low, high);
  EXPECT_EQ(Key(cache, memory.data(), kPage), low);
  EXPECT_EQ(Key(cache, memory.data() + 2 * kPage, kPage), high);
  EXPECT_EQ(cache.Statistics().misses, 2U);
}

TEST_F(RegionCacheTest, DetectsReallocationAtTheSameAddress) {
  const Gpu gpu;
  const DriverContext current;
  RegionCache cache({&a_});
  uint64_t first = 0, second = 0;
  ASSERT_EQ(cuMemAlloc_v2(&first, kPage), 0);
  Key(cache, reinterpret_cast<void*>(first), kPage);
  cuMemFree_v2(first);
  ASSERT_EQ(cuMemAlloc_v2(&second, kPage), 0);
  ASSERT_EQ(first, second) << "the test needs the same address again";
  const int exports = Exports();
  Key(cache, reinterpret_cast<void*>(second), kPage);
  EXPECT_EQ(Exports(), exports + 1);
  EXPECT_EQ(cache.Statistics().stale, 1U);
  EXPECT_EQ(cache.Statistics().regions, 1U);
  cache.Clear();
  cuMemFree_v2(second);
}

TEST_F(RegionCacheTest, DetectsRemappedChunks) {
  const Gpu gpu;
  const DriverContext current;
  VmmMemory memory(4);
  RegionCache cache({&a_});
  constexpr size_t kChunk = VmmMemory::kChunk;
  const uint32_t key = Key(cache, memory.data(), 4 * kChunk);
  EXPECT_EQ(Key(cache, memory.data() + kChunk, 2 * kChunk), key);
  memory.Unmap(3);
  memory.Map(3);
  EXPECT_EQ(Key(cache, memory.data() + kChunk, 2 * kChunk), key) << "these chunks are unchanged";
  EXPECT_EQ(cache.Statistics().stale, 0U);
  Key(cache, memory.data() + 2 * kChunk, 2 * kChunk);
  EXPECT_EQ(cache.Statistics().stale, 1U);
  EXPECT_EQ(cache.Statistics().misses, 2U);
}

TEST_F(RegionCacheTest, SharesHostMemoryButDoesNotKeepIt) {
  const HostPages pages(2 * kPage);
  RegionCache cache({&a_});
  {
    const RegionCache::Lease lease = cache.Register(pages.data(), 2 * kPage);
    EXPECT_EQ(Key(cache, pages.data() + kPage, kPage), lease.View().rkey);
    EXPECT_EQ(cache.Statistics().in_use, 1U);
  }
  EXPECT_EQ(cache.Statistics().regions, 0U);
  Key(cache, pages.data(), kPage);
  EXPECT_EQ(cache.Statistics().misses, 2U);
}

TEST_F(RegionCacheTest, KeepsHostMemoryOnRequestUntilInvalidated) {
  const HostPages pages(4 * kPage);
  RegionCache cache({&a_}, {.keep_host_memory = true});
  for (const size_t page : {0, 1, 2, 3}) Key(cache, pages.data() + page * kPage, kPage);
  EXPECT_EQ(cache.Statistics().regions, 4U);
  Key(cache, pages.data() + 3 * kPage, kPage);
  EXPECT_EQ(cache.Statistics().hits, 1U);
  cache.Invalidate(pages.data() + kPage + 1, kPage);
  EXPECT_EQ(cache.Statistics().regions, 2U);
  EXPECT_EQ(cache.Statistics().stale, 2U);
  Key(cache, pages.data(), kPage);
  Key(cache, pages.data() + 3 * kPage, kPage);
  EXPECT_EQ(cache.Statistics().hits, 3U);
}

TEST_F(RegionCacheTest, EvictsTheLeastRecentlyUsedIdleRegion) {
  const GpuMemory memory(Gpu(), 4 * kPage);
  const auto page = [&](size_t index) { return memory.data() + index * kPage; };
  RegionCache cache({&a_}, {.max_regions = 2});
  std::optional<RegionCache::Lease> used = cache.Register(page(0), kPage);
  const uint32_t key = used->View().rkey;
  Key(cache, page(1), kPage);
  Key(cache, page(2), kPage);
  EXPECT_EQ(cache.Statistics().evictions, 1U);
  EXPECT_EQ(cache.Statistics().regions, 2U);
  const uint64_t misses = cache.Statistics().misses;
  EXPECT_EQ(Key(cache, page(0), kPage), key);
  Key(cache, page(2), kPage);
  EXPECT_EQ(cache.Statistics().misses, misses);
  Key(cache, page(1), kPage);
  EXPECT_EQ(cache.Statistics().misses, misses + 1) << "the region was evicted";
}

TEST_F(RegionCacheTest, AllowsMoreRegionsInUseThanItKeeps) {
  const GpuMemory memory(Gpu(), 4 * kPage);
  RegionCache cache({&a_}, {.max_bytes = kPage});
  std::vector<RegionCache::Lease> leases;
  for (const size_t page : {0, 1, 2}) leases.push_back(cache.Register(memory.data() + page * kPage, kPage));
  EXPECT_EQ(cache.Statistics().regions, 3U);
  EXPECT_EQ(cache.Statistics().in_use, 3U);
  leases.clear();
  EXPECT_EQ(cache.Statistics().regions, 1U);
  EXPECT_EQ(cache.Statistics().bytes, kPage);
}

TEST_F(RegionCacheTest, InvalidatesARegionInUseWithoutDestroyingIt) {
  const GpuMemory memory(Gpu(), kPage);
  RegionCache cache({&a_});
  std::optional<RegionCache::Lease> used = cache.Register(memory.data(), kPage);
  cache.Invalidate(memory.data(), 1);
  EXPECT_EQ(cache.Statistics().regions, 1U);
  EXPECT_NE(Key(cache, memory.data(), kPage), used->View().rkey);
  EXPECT_EQ(cache.Statistics().regions, 2U);
  used.reset();
  EXPECT_EQ(cache.Statistics().regions, 1U);
  EXPECT_EQ(cache.Statistics().in_use, 0U);
}

TEST_F(RegionCacheTest, IgnoresInvalidationOfAnEmptyRange) {
  const GpuMemory memory(Gpu(), kPage);
  RegionCache cache({&a_});
  Key(cache, memory.data(), kPage);
  cache.Invalidate(memory.data() + kPage, kPage);
  cache.Invalidate(memory.data(), 0);
  EXPECT_EQ(cache.Statistics().stale, 0U);
}

TEST_F(RegionCacheTest, LetsALeaseOutliveIt) {
  const GpuMemory memory(Gpu(), kPage);
  std::optional<RegionCache> cache(std::in_place, std::vector<const Device*>{&a_});
  const RegionCache::Lease lease = cache->Register(memory.data(), kPage);
  cache.reset();
  EXPECT_NE(lease.View().rkey, 0U);
}

TEST_F(RegionCacheTest, ReleasesAMovedLeaseOnce) {
  const GpuMemory memory(Gpu(), 2 * kPage);
  RegionCache cache({&a_});
  RegionCache::Lease first = cache.Register(memory.data(), kPage);
  RegionCache::Lease second = cache.Register(memory.data() + kPage, kPage);
  second = std::move(first);
  EXPECT_EQ(second.View().addr, reinterpret_cast<uint64_t>(memory.data()));
  EXPECT_EQ(cache.Statistics().in_use, 1U);
  EXPECT_EQ(cache.Statistics().regions, 2U);
}

TEST_F(RegionCacheTest, HasKeysForEachDevice) {
  const GpuMemory memory(Gpu(), kPage);
  const MemoryRegion other(b_, memory.data(), kPage);  // both devices may assign the same key numbers
  RegionCache cache({&a_, &b_});
  const RegionCache::Lease lease = cache.Register(memory.data(), kPage);
  EXPECT_NE(lease.View(0).rkey, lease.View(1).rkey);
  EXPECT_THROW(lease.View(2), std::out_of_range);
}

TEST_F(RegionCacheTest, DropsIdleRegionsAndRetriesOnShortage) {
  constexpr int kWays = 2, kOutOfMemory = 2;  // by dma-buf and by address; CUDA_ERROR_OUT_OF_MEMORY
  const auto fail = [](int by_dma_buf, int by_address, int devices) {
    return [=] { Inject({.by_address = by_address, .by_dma_buf = by_dma_buf, .calls = kWays * devices}); };
  };
  const auto expect_tried_again = [&](std::vector<const Device*> devices,
                                      const std::function<void()>& fault) {
    const GpuMemory memory(Gpu(), 2 * kPage);
    RegionCache cache(std::move(devices));
    Key(cache, memory.data(), kPage);
    fault();
    EXPECT_EQ(SentenceOf([&] { Key(cache, memory.data() + kPage, kPage); }), "");
    EXPECT_EQ(cache.Statistics().regions, 1U) << "the idle region is dropped";
    Inject({});
  };
  for (const int error : {ENOMEM, EAGAIN, ENOSPC}) expect_tried_again({&a_}, fail(error, error, 1));
  expect_tried_again({&a_}, fail(ENOMEM, EFAULT, 1));  // as without nvidia_peermem
  expect_tried_again({&a_, &b_}, fail(ENOMEM, ENOMEM, 2));
  expect_tried_again({&a_}, [] {
    fake_cuda::FailCall("cuMemGetHandleForAddressRange", 1, kOutOfMemory);
    fake_cuda::FailCall("cuPointerSetAttribute", 1);
  });
}

TEST_F(RegionCacheTest, KeepsIdleRegionsAndDoesNotRetryOtherFailures) {
  const GpuMemory memory(Gpu(), 2 * kPage);
  RegionCache cache({&a_});
  const uint32_t key = Key(cache, memory.data(), kPage);
  for (const int error : {EFAULT, EINVAL, EOPNOTSUPP, EPERM}) {
    const int before = Registrations();
    Inject({.by_address = error, .by_dma_buf = error});
    EXPECT_THAT(WhyRefused([&] { cache.Register(memory.data() + kPage, kPage); }),
                HasSubstr(strerrorname_np(error)));
    Inject({});
    EXPECT_EQ(Registrations() - before, 2) << "one attempt per method";
  }
  EXPECT_THROW(cache.Register(reinterpret_cast<void*>(kPage), kPage), Error);
  const DriverContext current;
  uint64_t managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, kPage, 1), 0);
  EXPECT_THAT(WhyRefused([&] { cache.Register(reinterpret_cast<void*>(managed), kPage); }),
              HasSubstr("it is managed memory"));
  cuMemFree_v2(managed);
  EXPECT_EQ(cache.Statistics().regions, 1U);
  EXPECT_EQ(Key(cache, memory.data(), kPage), key);
}

TEST_F(RegionCacheTest, RemovesStaleEntriesThatCoverANewOne) {
  const Gpu gpu;
  const DriverContext current;
  VmmMemory memory(5);
  constexpr size_t kChunk = VmmMemory::kChunk;
  RegionCache cache({&a_});
  for (const size_t chunk : {0, 1, 2}) Key(cache, memory.data() + chunk * kChunk, 3 * kChunk);
  memory.Unmap(2);
  memory.Map(2);
  Key(cache, memory.data() + 2 * kChunk, kChunk);
  EXPECT_EQ(cache.Statistics().stale, 3U) << "all included the replaced chunk";
  EXPECT_EQ(cache.Statistics().regions, 1U);
  cache.Invalidate(memory.data() + 2 * kChunk, kChunk);
  EXPECT_EQ(cache.Statistics().regions, 0U);
}

TEST_F(RegionCacheTest, IsThreadSafe) {
  constexpr size_t kThreads = 4, kUses = 500, kPages = 8;
  const GpuMemory memory(Gpu(), kPages * kPage);
  RegionCache cache({&a_}, {.max_regions = 3});
  {
    std::vector<std::jthread> threads;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (size_t use = 0; use < kUses; ++use) {
          const size_t page = (use * 7 + thread * 3) % kPages;
          const size_t pages = 1 + use % (kPages - page);
          const RegionCache::Lease lease = cache.Register(memory.data() + page * kPage, pages * kPage);
          EXPECT_EQ(lease.View().bytes, pages * kPage);
          if (use % 50 == thread) cache.Invalidate(memory.data() + page * kPage, kPage);
        }
      });
    }
  }
  const RegionCacheStatistics end = cache.Statistics();
  EXPECT_EQ(end.hits + end.misses, kThreads * kUses);
  EXPECT_EQ(end.in_use, 0U);
  EXPECT_LE(end.regions, 3U);
  cache.Clear();
  EXPECT_EQ(cache.Statistics().regions, 0U);
  EXPECT_EQ(cache.Statistics().bytes, 0U);
}

TEST_F(RegionCacheTest, SucceedsIfOneDeviceReachesTheMemory) {
  const GpuMemory memory(Gpu(), kPage);
  const Device* const devices[] = {&a_, &b_};
  fake_cuda::FailCall("cuMemGetHandleForAddressRange", 1);
  fake_cuda::FailCall("cuPointerSetAttribute", 1);
  const RegionSet set(devices, memory.data(), kPage);
  EXPECT_FALSE(set.Has(0));
  EXPECT_TRUE(set.Has(1));
  EXPECT_NE(set.View(b_).rkey, 0U);
  try {
    static_cast<void>(set.View(a_));
    FAIL() << "it has a key";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(" on mlx5_0: by dma-buf: "));
  }
}

TEST_F(RegionCacheTest, ReportsEachReasonIfNoDeviceReachesTheMemory) {
  const Device* const devices[] = {&a_, &b_};
  const auto refusal = [](std::span<const Device* const> on) {
    return WhyRefused([&] { RegionSet(on, reinterpret_cast<void*>(kPage), kPage); });
  };
  EXPECT_THAT(refusal(devices), testing::AllOf(HasSubstr("on any of 2 devices: no device can register them"),
                                               HasSubstr("on mlx5_0: "), HasSubstr("on mlx5_1: ")));
  EXPECT_THAT(refusal(std::span(devices).first(1)),
              testing::StartsWith("Cannot register 4096 bytes at 0x1000 (host memory) on mlx5_0: "));
  EXPECT_THAT(refusal({}), HasSubstr("no device is named. Name one or more."));
}

}  // namespace
}  // namespace warpverbs::host
