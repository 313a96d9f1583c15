// A thousand repetitions leave the process unchanged.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <vector>

#include "common/repetitions.hpp"
#include "host/connect/exchange_fixture.hpp"
#include "host/endpoint/link.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/queue_pool.hpp"

namespace warpverbs::host {
namespace {

/// The process's resources. `heap` is 0 under a sanitizer, which has its own.
struct ProcessUse {
  size_t files = OpenFiles();
  size_t heap = mallinfo2().uordblks;
  size_t pages = 0;

  ProcessUse() { std::ifstream("/proc/self/statm") >> pages; }
};

/// Expects the same use, apart from what the allocators' caches may have grown by.
void ExpectSame(const ProcessUse& before, const ProcessUse& after) {
  EXPECT_EQ(after.files, before.files);
  EXPECT_LE(after.heap, before.heap + 32 * 1024) << "less than 32 bytes per endpoint of a thousand";
  if (!tests::kSanitized) {
    EXPECT_LE(after.pages, before.pages + 256) << "less than 1 MiB; a leak would be 4 KiB or more each";
  }
}

class ManyEndpoints : public testing::Test {
 protected:
  /// Connects two hundred endpoints in pairs and destroys them.
  void ComeAndGo(QueuePool* pool) const {
    const EndpointConfig config{.depth = 64, .pool = pool};
    const Words words(device_);
    std::vector<std::unique_ptr<Endpoint>> all;
    for (int pair = 0; pair < 100; ++pair) {
      for (int side = 0; side < 2; ++side) all.push_back(std::make_unique<Endpoint>(device_, config));
      Endpoint& a = *all[all.size() - 2];
      Endpoint& b = *all.back();
      a.Connect(b.Info());
      b.Connect(a.Info());
    }
    Queue queue(all.front()->View());
    words[0] = words[1] + 1;
    const device::Posted posted = queue.Post(device::Write(words.Remote(1), words.Local(0)), Within());
    ASSERT_TRUE(queue.Wait(posted.ticket, Within()).ok());
    ASSERT_EQ(words[1], words[0]);
  }

  Device device_;
};

TEST_F(ManyEndpoints, LeakNothingInAThousandConnections) {
  ComeAndGo(nullptr);  // fills the caches of rdma-core and the allocators
  const ProcessUse before;
  for (int round = 0; round < 5; ++round) ComeAndGo(nullptr);
  ExpectSame(before, ProcessUse());
}

TEST_F(ManyEndpoints, LeakNothingInAThousandPooledConnections) {
  QueuePool pool(device_);
  ComeAndGo(&pool);
  const ProcessUse before;
  const size_t chunks = pool.usage().chunks;
  for (int round = 0; round < 5; ++round) ComeAndGo(&pool);
  ExpectSame(before, ProcessUse());
  EXPECT_EQ(pool.usage().used_bytes, 0);
  EXPECT_EQ(pool.usage().chunks, chunks);
}

TEST_F(ManyEndpoints, ReleaseEverythingWithThePool) {
  const auto pool_comes_and_goes = [&] {
    QueuePool pool(device_);
    ComeAndGo(&pool);
  };
  pool_comes_and_goes();
  const ProcessUse before;
  for (int round = 0; round < 3; ++round) pool_comes_and_goes();
  ExpectSame(before, ProcessUse());
}

TEST_F(ManyEndpoints, LeakNothingInAThousandRegistrations) {
  const HostPages pages(1000 * 4096);
  const auto come_and_go = [&] {
    std::vector<std::unique_ptr<MemoryRegion>> regions;
    for (size_t i = 0; i < 1000; ++i) {
      regions.push_back(std::make_unique<MemoryRegion>(device_, pages.data() + 4096 * i, 4096));
    }
  };
  come_and_go();
  const ProcessUse before;
  come_and_go();
  ExpectSame(before, ProcessUse());
}

}  // namespace
}  // namespace warpverbs::host
