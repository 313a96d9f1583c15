#include "warpverbs/host/queue_pool.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "host/gpu/gpu_failures.hpp"
#include "host/gpu/gpu_fixture.hpp"
#include "host/log/refusal.hpp"
#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/doorbell_thread.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/shared_completions.hpp"

/// Endpoints with adjacent queues.
namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class QueuePools : public WithGpu {
 protected:
  EndpointConfig In(QueuePool& pool, EndpointConfig config = {.depth = 64}) const {
    config.pool = &pool;
    return config;
  }
};

TEST_F(QueuePools, PackTheQueuesOfThreeHundredEndpoints) {
  QueuePool pool(device_);
  std::vector<std::unique_ptr<Link>> links;
  for (int i = 0; i < 150; ++i) {
    links.push_back(std::make_unique<Link>(device_, In(pool), In(pool)));
    links.back()->Connect();
  }
  for (const auto& link : links) ASSERT_TRUE(link->Write(2).ok());
  for (const auto& link : links) ASSERT_TRUE(link->Write(70).ok()) << "past the end of the queue";
  const QueuePool::Usage usage = pool.usage();
  EXPECT_LT(usage.used_bytes / 300, 10 * 1024) << "per endpoint, 8 KiB of it for the send queue and its CQEs";
  EXPECT_LE(usage.bytes, usage.used_bytes + 2 * pool.config().chunk_bytes + usage.used_bytes / 20);
  EXPECT_EQ(usage.registers, 38) << "300 / 8, rounded up";
}

TEST_F(QueuePools, HoldEndpointsOfAllKinds) {
  QueuePool pool(device_, {.chunk_bytes = 16384, .endpoints_per_register = 3});
  SharedCompletions ring(device_, {.depth = 64, .max_queues = 4});
  DoorbellThread thread;
  const EndpointConfig kinds[] = {
      {.depth = 1},
      {.depth = 64, .cq_mode = CqMode::kRing},
      {.depth = 16, .receive_depth = 8, .receive_scatter = 2},
      {.depth = 8, .completions = &ring},
      {.depth = 16, .doorbell = DoorbellMode::kHostProxy, .doorbell_thread = &thread},
      {.depth = 16, .doorbell = DoorbellMode::kHostPosts, .doorbell_thread = &thread},
      {.depth = 1024, .cq_mode = CqMode::kRing, .receive_depth = 512},  // larger than a chunk
  };
  std::vector<std::unique_ptr<Link>> links;
  for (int round = 0; round < 2; ++round) {
    for (const EndpointConfig& kind : kinds) {
      links.push_back(std::make_unique<Link>(device_, In(pool, kind), In(pool, kind)));
      links.back()->Connect();
    }
    for (const auto& link : links) EXPECT_TRUE(link->Write(100).ok()) << link->a.Describe();
    links.erase(links.begin(), links.begin() + 3);
  }
}

TEST_F(QueuePools, DeliverReceivesBesideOtherQueues) {
  QueuePool pool(device_);
  const EndpointConfig config = In(pool, {.depth = 8, .receive_depth = 4});
  const Endpoint before(device_, config);
  Link link(device_, config, config);
  const Endpoint behind(device_, config);
  for (uint64_t cycle = 1; cycle <= 3; ++cycle) {
    link.Connect();
    Queue queue(link.a.View());
    device::ReceiveQueue<Cpu> receives(link.b.ReceiveView());
    for (uint64_t i = 0; i < 20; ++i) {
      ASSERT_TRUE(receives.Post(link.target.Local(0)).ok());
      receives.Submit();
      link.source[0] = 100 * cycle + i;
      const device::Posted posted = queue.Post(device::Send(link.source.Local(0)), Within());
      ASSERT_TRUE(queue.Wait(posted.ticket, Within()).ok());
      ASSERT_TRUE(receives.Poll(Within()).status.ok());
      ASSERT_EQ(link.target[0], 100 * cycle + i);
    }
    link.a.Reset();
    link.b.Reset();
  }
}

/// Returns all bytes that an endpoint's view refers to.
std::vector<uint8_t> BytesOf(const Endpoint& endpoint) {
  const device::QueueView view = endpoint.View();
  std::vector<uint8_t> bytes(view.sq, view.sq + size_t{64} * view.depth);
  const auto add = [&bytes](const void* from, size_t count) {
    const auto* const first = static_cast<const uint8_t*>(from);
    bytes.insert(bytes.end(), first, first + count);
  };
  add(view.cqe, 64);
  add(view.control, sizeof *view.control);
  add(view.dbrec, 4);
  return bytes;
}

TEST_F(QueuePools, KeepNeighboursUntouchedOnReset) {
  QueuePool pool(device_);
  for (const CqMode mode : {CqMode::kCollapsed, CqMode::kRing}) {
    const EndpointConfig config = In(pool, {.depth = 8, .cq_mode = mode, .receive_depth = 4});
    Link before(device_, config), link(device_, config, config), behind(device_, config);
    for (Link* const one : {&before, &link, &behind}) {
      one->Connect();
      ASSERT_TRUE(one->Write(20).ok());
    }
    const auto left = BytesOf(before.a), right = BytesOf(behind.a);
    link.a.Reset();
    link.b.Reset();
    EXPECT_EQ(BytesOf(before.a), left);
    EXPECT_EQ(BytesOf(behind.a), right);
    link.Connect();
    for (Link* const one : {&before, &link, &behind}) EXPECT_TRUE(one->Write(20).ok());
  }
}

TEST_F(QueuePools, LimitAFailureToTheFailedEndpoint) {
  QueuePool pool(device_);
  Link good(device_, In(pool)), bad(device_, In(pool));
  good.Connect();
  bad.Connect();
  bad.PostWrongWrite();
  ASSERT_TRUE(Await([&] { return bad.a.LastError().has_value(); }));
  EXPECT_TRUE(good.Write(100).ok());
  EXPECT_FALSE(good.a.LastError().has_value());
}

TEST_F(QueuePools, DropFetchedValuesAnywhereInAChunk) {
  QueuePool pool(device_, {.chunk_bytes = 4097});  // its last page has room for queues, too
  std::vector<std::unique_ptr<Link>> links;
  while (pool.usage().chunks < 3)
    links.push_back(std::make_unique<Link>(device_, In(pool, {.depth = 1}), In(pool, {.depth = 1})));
  for (const auto& link : links) {
    link->Connect();
    Queue queue(link->a.View());
    const device::Posted posted = queue.Post(device::FetchAdd<uint64_t>(link->target.Remote(0), 1), Within());
    ASSERT_TRUE(posted.status.ok());
    ASSERT_EQ(queue.Wait(posted.ticket, Within()).code, Code::kOk) << link->a.Describe();
  }
}

TEST_F(QueuePools, ReuseFreedPlaces) {
  QueuePool pool(device_);
  std::optional<Endpoint> first(std::in_place, device_, In(pool));
  const Endpoint keeper(device_, In(pool));
  const QueuePool::Usage usage = pool.usage();
  const uint8_t* const place = first->View().sq;
  std::memset(first->View().sq, 0x5a, 64);
  for (int i = 0; i < 50; ++i) {
    first.reset();
    EXPECT_LT(pool.usage().used_bytes, usage.used_bytes);
    first.emplace(device_, In(pool));
    EXPECT_EQ(first->View().sq, place);
    EXPECT_EQ(*first->View().sq, 0) << "the bytes of the previous endpoint are cleared";
  }
  EXPECT_EQ(pool.usage().chunks, usage.chunks);
  EXPECT_EQ(pool.usage().used_bytes, usage.used_bytes);
  EXPECT_EQ(pool.usage().registers, 1);
}

TEST_F(QueuePools, MayBeDestroyedBeforeTheirEndpoints) {
  std::optional<QueuePool> pool(std::in_place, device_);
  Link link(device_, In(*pool), In(*pool));
  pool.reset();
  link.Connect();
  EXPECT_TRUE(link.Write(100).ok());
  const MemoryView views[] = {link.source.region.View()};
  link.a.AllowRegions(views, {});
  link.a.Reset();
  link.b.Reset();
  link.Connect();
  EXPECT_TRUE(link.Write(10).ok());
}

TEST_F(QueuePools, AreThreadSafe) {
  QueuePool pool(device_, {.chunk_bytes = 32768});
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 10; ++round) {
          Link link(device_, In(pool), In(pool));
          link.Connect();
          EXPECT_TRUE(link.Write(3).ok());
        }
      });
    }
  }
  EXPECT_EQ(pool.usage().used_bytes, 0);
}

TEST_F(QueuePools, DescribeWhatIsShared) {
  QueuePool pool(device_), lone(device_, {.endpoints_per_register = 1});
  EXPECT_THAT(Endpoint(device_, In(pool)).Describe(),
              AllOf(HasSubstr("queue memory: 9216 bytes, in a pool's 262144 bytes of host memory (threads of "
                              "the CPU post)\n"),
                    HasSubstr(", for up to 8 endpoints of a pool; rung by the poster")));
  EXPECT_THAT(Endpoint(device_, In(lone)).Describe(), testing::Not(HasSubstr("endpoints of a pool")));
}

TEST_F(QueuePools, RejectInvalidConfigurations) {
  const auto refusal = [this](const QueuePoolConfig& config) {
    return host::WhyRefused([&] { QueuePool(device_, config); });
  };
  EXPECT_THAT(refusal({.chunk_bytes = 0}), HasSubstr(": its chunks are empty."));
  EXPECT_THAT(refusal({.endpoints_per_register = 0}),
              HasSubstr(": no endpoint may use a doorbell register."));
  const Device other;
  QueuePool stranger(other);
  EXPECT_EQ(
      WhyRefused(In(stranger)),
      "Cannot create an endpoint in a pool of queues: the pool belongs to another Device object. Create "
      "both on the same one.");
}

TEST_F(QueuePools, MapEachChunkInGpuMemoryOnce) {
  const Gpu gpu;
  for (const char* const driver : {"", "dma_buf=0"}) {
    fake_cuda::Configure(driver);
    QueuePool pool(device_);
    const EndpointConfig config = In(pool, {.depth = 16, .receive_depth = 4, .gpu = &gpu});
    std::vector<std::unique_ptr<Link>> links;
    for (int i = 0; i < 10; ++i) {
      links.push_back(std::make_unique<Link>(device_, config, config));
      links.back()->Connect();
    }
    EXPECT_TRUE(links.back()->a.on_gpu());
    EXPECT_EQ(fake_cuda::HeldNow().allocations, 1);
    EXPECT_EQ(pool.usage().registers, 3) << "for 20 endpoints";
    EXPECT_LE(fake_cuda::HeldNow().registrations, 1 + 3) << "the host's words, the pages of the registers";
    for (const auto& link : links) EXPECT_TRUE(Write(*link, 40).ok());
    links.front()->a.Reset();
    links.front()->b.Reset();
    links.front()->Connect();
    for (const auto& link : links) EXPECT_TRUE(Write(*link, 40).ok());
  }
}

TEST_F(QueuePools, UseSeparateChunksForEachProcessor) {
  const Gpu gpu;
  QueuePool pool(device_);
  Link cpu(device_, In(pool), In(pool));
  const EndpointConfig mapped = In(pool, {.gpu = &gpu, .placement = Placement::kHost});
  Link host(device_, mapped, mapped);
  const EndpointConfig config = In(pool, {.gpu = &gpu, .placement = Placement::kGpu});
  Link own(device_, config, config);
  EXPECT_FALSE(host.a.on_gpu());
  EXPECT_TRUE(own.a.on_gpu());
  EXPECT_EQ(pool.usage().chunks, 3 + 2) << "queues of three kinds; host memory, mapped and unmapped";
  for (Link* const link : {&cpu, &host}) {
    link->Connect();
    EXPECT_TRUE(link->Write(200).ok());
  }
  own.Connect();
  EXPECT_TRUE(Write(own, 200).ok());
}

TEST_F(QueuePools, LeakNothingIfGrowingFails) {
  for (const Placement placement : {Placement::kProbe, Placement::kHost, Placement::kGpu}) {
    EXPECT_GT(ForEachFailure([&] {
                const Gpu gpu;
                QueuePool pool(device_, {.chunk_bytes = 4096});
                const EndpointConfig config =
                    In(pool, {.depth = 4, .receive_depth = 4, .gpu = &gpu, .placement = placement});
                const QueuePool::Usage before = pool.usage();
                try {
                  Endpoint first(device_, config), second(device_, config);
                  first.Reset();
                } catch (const Error&) {
                  EXPECT_EQ(pool.usage().used_bytes, before.used_bytes);
                  const Endpoint later(device_, config);  // the pool still works
                  throw;
                }
              }),
              15);
  }
}

}  // namespace
}  // namespace warpverbs::host
