#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "buffer/shared_here.hpp"
#include "common/fork_while_in_use.hpp"
#include "common/run_in_child.hpp"
#include "events/event_watch.hpp"
#include "host/device/softhca.hpp"
#include "host/log/refusal.hpp"
#include "log/log_writer.hpp"
#include "queue/completions_attachment.hpp"
#include "queue/doorbell_service.hpp"
#include "queue/queue_pool_impl.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/buffer_pool.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/doorbell_thread.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/event_thread.hpp"
#include "warpverbs/host/region_cache.hpp"
#include "warpverbs/host/shared_completions.hpp"

/// A forked child has copies of all objects, but none of their threads: it may destroy what it has.
namespace warpverbs::host {
namespace {

using arch::Cpu;
using testing::HasSubstr;
using tests::ForkWhileInUse;
using tests::RunInChild;

constexpr std::chrono::seconds kSoon{60};

struct Words {
  uint64_t word = 0, doorbell = 0;
  DoorbellRoute Route() { return {.word = &word, .doorbell = &doorbell}; }
};

bool Forwards(Words& words, uint64_t doorbell) {
  Cpu::StoreReleaseMmio(&words.word, mlx5::Be64{doorbell}, arch::Mmio::kUncached);
  for (const uint64_t end = Cpu::NowNs() + 60'000'000'000; Cpu::NowNs() < end; std::this_thread::yield()) {
    if (Cpu::Load(&words.doorbell) == doorbell) return true;
  }
  return false;
}

TEST(Fork, ChildDestroysADoorbellThreadAndItsServices) {
  Words words;
  auto thread = std::make_unique<DoorbellThread>();
  auto service = std::make_unique<DoorbellService>(*thread, words.Route());
  ASSERT_TRUE(Forwards(words, 1));
  RunInChild([&] {
    service.reset();
    thread.reset();
  });
  EXPECT_TRUE(Forwards(words, 2)) << "the parent's thread continues";
}

TEST(Fork, ChildDestroysADoorbellThreadThatSleeps) {
  auto thread = std::make_unique<DoorbellThread>();
  Words words;
  for (int times = 0; times < 20; ++times) {
    { const DoorbellService service(*thread, words.Route()); }
    RunInChild([&] { thread.reset(); });
  }
}

TEST(Fork, ChildCannotUseTheDoorbellThreadOfItsParent) {
  DoorbellThread thread;
  Words words;
  {  // until the thread has started: AddressSanitizer's own locks do not survive a fork meanwhile
    const DoorbellService service(thread, words.Route());
    ASSERT_TRUE(Forwards(words, 1));
  }
  RunInChild([&] {
    EXPECT_EQ(
        WhyRefused([&] { const DoorbellService service(thread, words.Route()); }),
        "Cannot add a queue to a thread that rings doorbells: this process was forked from the one that "
        "started the thread. Start one in the process that uses the queue.");
    DoorbellThread own;
    const DoorbellService service(own, words.Route());
    EXPECT_TRUE(Forwards(words, 3));
  });
}

TEST(Fork, ChildDestroysEndpointsThatTheHostRings) {
  const Device device;
  auto endpoint = std::make_unique<Endpoint>(device, EndpointConfig{.doorbell = DoorbellMode::kHostProxy});
  RunInChild([&] { endpoint.reset(); });
}

/// The fork happens while the event thread holds its lock: it delivers an event.
TEST(Fork, ChildDestroysAnEventThreadThatIsAtWork) {
  const Device device;
  auto events = std::make_unique<EventThread>(EventConfig{.port_down_grace = std::chrono::milliseconds(0)});
  std::promise<void> entered, leave;
  std::shared_future<void> left = leave.get_future().share();
  std::atomic<bool> first = true;
  auto watch =
      std::make_unique<EventWatch>(*events, WatchConfig{.device = &device, .port = 1, .on_abort = [&] {
                                                          if (!first.exchange(false)) return;
                                                          entered.set_value();
                                                          left.wait_for(kSoon);
                                                        }});
  SetLink(device, false);
  EXPECT_EQ(entered.get_future().wait_for(kSoon), std::future_status::ready);
  RunInChild([&] {
    EXPECT_EQ(watch->Newest(), std::nullopt);
    EXPECT_EQ(watch->Cause(), std::nullopt);
    watch->Clear();
    watch.reset();
    EXPECT_THAT(WhyRefused([&] { const EventWatch another(*events, {.device = &device, .port = 1}); }),
                HasSubstr("this process was forked from the one that started the thread"));
    events.reset();
  });
  EXPECT_NE(fcntl(device.context()->async_fd, F_GETFL) & O_NONBLOCK, 0)
      << "the child changed a file that it shares with its parent";
  leave.set_value();
  SetLink(device, true);
}

TEST(Fork, ChildDestroysEndpointsOfAPoolInUse) {
  const Device device;
  auto pool = std::make_unique<QueuePool>(device);
  auto endpoint = std::make_unique<Endpoint>(device, EndpointConfig{.pool = pool.get()});
  ForkWhileInUse([&] { pool->impl().TakeHostMemory(nullptr, 128); },
                 [&] {
                   endpoint.reset();
                   pool.reset();
                 });
}

TEST(Fork, ChildDestroysEndpointsOfSharedCompletionsInUse) {
  const Device device;
  auto ring = std::make_unique<SharedCompletions>(device);
  auto endpoint = std::make_unique<Endpoint>(device, EndpointConfig{.depth = 64, .completions = ring.get()});
  ForkWhileInUse(
      [&] {
        device::QueueControl control{};
        const CompletionsAttachment attachment(*ring, device, {}, control, 64);
      },
      [&] {
        endpoint.reset();
        ring.reset();
      });
}

TEST(Fork, ChildDestroysACacheOfRegionsInUse) {
  const Device device;
  alignas(4096) static std::byte memory[4096];
  auto cache = std::make_unique<RegionCache>(std::vector<const Device*>{&device});
  auto lease = std::make_unique<RegionCache::Lease>(cache->Register(memory, sizeof memory));
  ForkWhileInUse([&] { const RegionCache::Lease used = cache->Register(memory, sizeof memory); },
                 [&] {
                   lease.reset();
                   cache.reset();
                 });
}

TEST(Fork, ChildDestroysABufferOfAPoolInUse) {
  const Device device;
  const Device* const devices[] = {&device};
  std::optional<BufferPool> pool;
  pool.emplace(HostMemoryKind(), devices, BufferPoolConfig{.buffer_bytes = 64, .count = 2});
  std::optional<BufferPool::Lease> lease(pool->Allocate());
  ForkWhileInUse([&] { const BufferPool::Lease used = pool->Allocate(); },
                 [&] {
                   lease.reset();
                   pool.reset();
                 });
}

TEST(Fork, ChildHasSharedNothing) {
  const SharedMemoryInfo info{.bytes = 64, .address = 0x1000};
  RememberSharedHere(info);
  ForkWhileInUse([&] { RememberSharedHere(info); },
                 [&] {
                   EXPECT_FALSE(IsSharedHere(info));
                   RememberSharedHere(info);
                   EXPECT_TRUE(IsSharedHere(info));
                 });
}

/// Some forks happen while another thread is in the log: it waits for room on stderr.
TEST(Fork, ChildWritesTheLog) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor out(ends[0]), in(ends[1]), stderr_file(dup(STDERR_FILENO));
  ASSERT_GE(dup2(in.get(), STDERR_FILENO), 0);
  std::atomic<bool> stop = false;
  std::jthread writer([&] {
    const std::string line(100'000, 'x');  // more than a pipe takes
    while (!stop) {
      WriteToStderr(line);
      char bytes[65536];
      [[maybe_unused]] const ssize_t taken = read(out.get(), bytes, sizeof bytes);
    }
  });
  for (int times = 0; times < 10; ++times) {
    RunInChild([] {
      const FileDescriptor nothing(open("/dev/null", O_WRONLY | O_CLOEXEC));
      dup2(nothing.get(), STDERR_FILENO);
      WriteToStderr("a line\n");
    });
  }
  stop = true;
  writer.join();
  dup2(stderr_file.get(), STDERR_FILENO);
}

}  // namespace
}  // namespace warpverbs::host
