#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <optional>
#include <utility>

#include "host/connect/exchange_fixture.hpp"
#include "host/endpoint/faults.hpp"
#include "host/endpoint/link.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/buffer_pool.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/region_cache.hpp"
#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::host {
namespace {

TEST_P(Faults, LeaveNothingOfRegionSets) {
  const Device first("mlx5_0"), second("mlx5_1");
  const Device* const devices[] = {&first, &second};
  const HostPages pages(8192);
  bool one_failed = false;
  ForEachFault(GetParam(), [&] {
    const RegionSet set(devices, pages.data(), pages.size());
    Require(set.Has(0) || set.Has(1), "a set without a region");
    one_failed = one_failed || set.Has(0) != set.Has(1);
    for (const size_t device : {0, 1})
      if (set.Has(device)) Require(set.View(device).bytes == pages.size(), "a view of another size");
  });
  EXPECT_EQ(one_failed, GetParam() == FaultyCalls::kVerbs) << "one device that works is enough";
}

TEST_P(Faults, LeaveNothingOfABufferPool) {
  const Device device;
  const Device* const devices[] = {&device};
  ForEachFault(GetParam(), [&] {
    std::optional<BufferPool> pool(std::in_place, HostMemoryKind(), devices, BufferPoolConfig{100, 5, {}});
    BufferPool::Lease lease = pool->Allocate();
    const BufferPool::Lease other = pool->Allocate();
    Require(lease && other && pool->FreeCount() == 3, "a buffer that is not there");
    lease = {};
    Require(pool->FreeCount() == 4, "a buffer that did not come back");
    pool.reset();
  });
}

/// Registers, releases, replaces, evicts and invalidates.
void UseCache(RegionCache& cache, const HostPages& pages) {
  constexpr size_t kPage = 4096;
  const auto take = [&](size_t page, size_t count) {
    return cache.Register(pages.data() + page * kPage, count * kPage);
  };
  RegionCache::Lease used = take(0, 2);
  for (size_t page = 2; page < 8; ++page) take(page, 1);
  RegionCache::Lease wide = take(2, 4);
  cache.Invalidate(pages.data() + 3 * kPage, 1);
  take(4, 1);
  used = std::move(wide);
  Require(used.View().bytes == 4 * kPage, "a view of another size");
}

TEST_P(Faults, LeaveARegionCacheUsable) {
  const Device device;
  const HostPages pages(32768);
  ForEachFault(GetParam(), [&] {
    RegionCache cache({&device}, {.max_regions = 3, .keep_host_memory = true});
    try {
      UseCache(cache, pages);
    } catch (...) {
      Require(cache.Statistics().in_use == 0, "a use that did not end");
      UseCache(cache, pages);
      Require(cache.Statistics().regions <= 3, "more regions than are kept");
      throw;
    }
  });
}

TEST(MemoryFaults, LeaveNoFileOfReceivedSharedMemory) {
  SharedMemoryInfo info{.kind = ShareKind::kDmaBuf, .bytes = 4096, .allocation_bytes = 4096, .address = 4096};
  ForEachFault(FaultyCalls::kMemory, [&] {
    int ends[2];
    Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no sockets");
    const FileDescriptor here(ends[0]), there(ends[1]);
    SendShared(here.get(), {info, FileDescriptor(memfd_create("shared", MFD_CLOEXEC))}, Soon());
    Require(static_cast<bool>(ReceiveShared(there.get(), Soon()).file), "no file came");
  });
}

}  // namespace
}  // namespace warpverbs::host
