#include "warpverbs/host/buffer_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fake_cuda.hpp"
#include "host/buffer/buffer_traffic.hpp"
#include "host/log/refusal.hpp"
#include "host/memory/registration_calls.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/gpu.hpp"

/// Buffers that are registered once and reused.
namespace warpverbs::host {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::HasSubstr;

class BufferPools : public testing::Test {
 protected:
  BufferPools() { fake_cuda::Configure(""); }
  ~BufferPools() override {
    Inject(RegistrationFault{});
    EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "resources leaked";
  }

  static std::string WhyNotMade(const MemoryKind& kind, std::span<const Device* const> on,
                                const BufferPoolConfig& config) {
    return WhyRefused([&] { BufferPool(kind, on, config); });
  }

  Device a_{"mlx5_0"}, b_{"mlx5_1"};
  const std::vector<const Device*> both_{&a_, &b_};
  const HostMemoryKind host_;
};

TEST_F(BufferPools, RegisterOncePerDeviceForEveryKind) {
  const Gpu gpu;
  const PinnedMemoryKind pinned(gpu);
  const CudaMemoryKind cuda(gpu);
  for (const MemoryKind* const kind : std::initializer_list<const MemoryKind*>{&host_, &pinned, &cuda}) {
    const int before = Registrations();
    BufferPool pool(*kind, both_, {.buffer_bytes = 5000, .count = 20, .access = {.remote_write = true}});
    EXPECT_EQ(Registrations(), before + 2) << kind->name();
    std::vector<BufferPool::Lease> all;
    for (int buffer = 0; buffer < 20; ++buffer) all.push_back(pool.Allocate());
    all.clear();
    const BufferPool::Lease from = pool.Allocate(), to = pool.Allocate();
    EXPECT_EQ(Registrations(), before + 2) << "taking a buffer registers nothing";
    for (const size_t device : {0, 1}) {
      from.CopyIn(0, Pattern(5000, static_cast<unsigned>(device)));
      EXPECT_TRUE(WriteView(*both_[device], from.View(device), to.View(device))) << kind->name();
      std::vector<std::byte> arrived(5000);
      to.CopyOut(0, arrived);
      EXPECT_EQ(arrived, Pattern(5000, static_cast<unsigned>(device))) << kind->name();
    }
    EXPECT_NE(from.View(0).addr, to.View(0).addr);
    EXPECT_EQ(from.View(0).bytes, 5000);
    EXPECT_TRUE(from.View(1).access.remote_write);
  }
}

TEST_F(BufferPools, SeparateAndAlignBuffers) {
  BufferPool pool(host_, both_, {.buffer_bytes = 100, .count = 64});
  std::vector<BufferPool::Lease> all;
  std::vector<uint64_t> places;
  while (BufferPool::Lease lease = pool.Allocate()) {
    places.push_back(reinterpret_cast<uint64_t>(lease.data()));
    EXPECT_EQ(lease.View().addr, places.back());
    EXPECT_EQ(lease.size(), 100);
    all.push_back(std::move(lease));
  }
  ASSERT_EQ(places.size(), 64);
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(places[i] % BufferPool::kAlignment, 0);
    if (i > 0) {
      EXPECT_GE(places[i] - places[i - 1], 100);
    }
  }
}

TEST_F(BufferPools, CountFreeBuffers) {
  BufferPool pool(host_, both_, {.buffer_bytes = 4096, .count = 3});
  EXPECT_EQ(pool.TotalCount(), 3);
  EXPECT_EQ(pool.BufferSize(), 4096);
  EXPECT_EQ(pool.FreeCount(), 3);
  {
    const BufferPool::Lease one = pool.Allocate();
    BufferPool::Lease other = pool.Allocate();
    EXPECT_EQ(pool.FreeCount(), 1);
    other = {};
    EXPECT_EQ(pool.FreeCount(), 2);
  }
  EXPECT_EQ(pool.FreeCount(), 3);
}

TEST_F(BufferPools, HoldOneBufferInAMovedLease) {
  BufferPool pool(host_, both_, {.buffer_bytes = 64, .count = 2});
  BufferPool::Lease first = pool.Allocate();
  std::byte* const place = first.data();
  BufferPool::Lease second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): the test is about the moved-from state
  EXPECT_EQ(second.data(), place);
  EXPECT_EQ(pool.FreeCount(), 1);
  second = pool.Allocate();
  EXPECT_EQ(pool.FreeCount(), 1) << "its old buffer is free again";
}

TEST_F(BufferPools, GiveUpAtTheDeadlineWithoutUsingTheProcessor) {
  BufferPool pool(host_, both_, {.buffer_bytes = 64, .count = 1});
  const BufferPool::Lease only = pool.Allocate();
  EXPECT_FALSE(pool.Allocate()) << "at once";
  const auto processor_time = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto before = processor_time();
  const Deadline start = std::chrono::steady_clock::now();
  EXPECT_FALSE(pool.Allocate(start + milliseconds(300)));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(300));
  EXPECT_LT(processor_time() - before, milliseconds(60));
}

TEST_F(BufferPools, ReportAnEmptyLease) {
  const BufferPool::Lease none;
  try {
    static_cast<void>(none.View());
    FAIL() << "it has a view";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "Cannot use a buffer of a pool: the lease is empty: no buffer became free in time, or the "
                 "lease was moved from. Check that the lease holds a buffer before using it.");
  }
  EXPECT_THROW(static_cast<void>(none.data()), Error);
  EXPECT_THROW(static_cast<void>(none.size()), Error);
}

TEST_F(BufferPools, RejectRangesOutsideOfABuffer) {
  BufferPool pool(host_, both_, {.buffer_bytes = 100, .count = 2});
  const BufferPool::Lease lease = pool.Allocate();
  std::byte bytes[2] = {};
  lease.CopyIn(100, {});
  EXPECT_THROW(lease.CopyIn(99, bytes), std::out_of_range) << "the next byte belongs to another buffer";
  EXPECT_THROW(lease.CopyOut(SIZE_MAX, bytes), std::out_of_range);
  EXPECT_THROW(static_cast<void>(lease.View(2)), std::out_of_range) << "there are two devices";
}

TEST_F(BufferPools, GiveFreedBuffersToWaiters) {
  BufferPool pool(host_, both_, {.buffer_bytes = 64, .count = 1});
  std::optional<BufferPool::Lease> only = pool.Allocate();
  std::atomic<int> got = 0;
  {
    std::vector<std::jthread> waiters;
    for (int waiter = 0; waiter < 4; ++waiter) {
      waiters.emplace_back([&] { got += pool.Allocate(DeadlineIn(minutes(1))) ? 1 : 0; });
    }
    only.reset();
  }
  EXPECT_EQ(got, 4) << "one after the other";
  EXPECT_EQ(pool.FreeCount(), 1);
}

TEST_F(BufferPools, NeverGiveABufferToTwoThreads) {
  constexpr int kThreads = 8, kRounds = 2000;
  constexpr size_t kBytes = 256, kCount = 3;
  BufferPool pool(host_, both_, {.buffer_bytes = kBytes, .count = kCount});
  std::atomic<int> taken = 0, most = 0, wrong = 0, refused = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int round = 0; round < kRounds; ++round) {
          const BufferPool::Lease lease = pool.Allocate(DeadlineIn(minutes(1)));
          if (!lease) {
            ++refused;
            continue;
          }
          const int now = ++taken;
          for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
          }
          std::fill_n(lease.data(), kBytes, std::byte(thread));
          std::this_thread::yield();
          wrong += std::count(lease.data(), lease.data() + kBytes, std::byte(thread)) != kBytes;
          --taken;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(refused, 0);
  EXPECT_LE(most, static_cast<int>(kCount));
  EXPECT_EQ(pool.FreeCount(), kCount);
}

TEST_F(BufferPools, MayBeDestroyedBeforeTheirBuffers) {
  const Gpu gpu;
  std::optional<BufferPool> pool(std::in_place, CudaMemoryKind(gpu), both_,
                                 BufferPoolConfig{5000, 4, {.remote_write = true}});
  BufferPool::Lease from = pool->Allocate();
  const BufferPool::Lease to = pool->Allocate();
  pool.reset();
  from.CopyIn(0, Pattern(5000, 7));
  EXPECT_TRUE(WriteView(a_, from.View(), to.View())) << "it is still registered";
  std::vector<std::byte> arrived(5000);
  to.CopyOut(0, arrived);
  EXPECT_EQ(arrived, Pattern(5000, 7));
  from = {};
  EXPECT_EQ(to.size(), 5000);
}

TEST_F(BufferPools, FreeTheirMemoryWithTheLastBuffer) {
  const fake_cuda::Held before = fake_cuda::HeldNow();
  {
    BufferPool::Lease last;
    {
      BufferPool pool(CudaMemoryKind(Gpu()), both_, {.buffer_bytes = 64, .count = 4});
      last = pool.Allocate();
    }
    EXPECT_EQ(fake_cuda::HeldNow().allocations, 1);
  }
  EXPECT_EQ(fake_cuda::HeldNow(), before);
}

TEST_F(BufferPools, RejectImpossibleConfigurations) {
  EXPECT_EQ(
      WhyNotMade(host_, both_, {.buffer_bytes = 0, .count = 4}),
      "Cannot make a pool of 4 buffers of 0 bytes of host memory: a pool cannot be empty. Ask for 1 buffer "
      "of 1 byte or more.");
  EXPECT_THAT(WhyNotMade(host_, both_, {.buffer_bytes = 64, .count = 0}),
              HasSubstr("a pool cannot be empty"));
  for (const size_t huge : {SIZE_MAX, SIZE_MAX - 255, SIZE_MAX / 2}) {
    EXPECT_THAT(WhyNotMade(host_, both_, {.buffer_bytes = huge, .count = 3}),
                HasSubstr("no machine has that much memory. Ask for fewer or smaller ones."));
  }
  EXPECT_THAT(WhyNotMade(host_, {}, {.buffer_bytes = 64, .count = 1}), HasSubstr("no device is named"));
  Inject(RegistrationFault{.by_address = ENOMEM});
  EXPECT_THAT(
      WhyNotMade(host_, both_, {.buffer_bytes = 64, .count = 1}),
      testing::AllOf(HasSubstr("on mlx5_0: by its address: "), HasSubstr("on mlx5_1: by its address: ")));
}

}  // namespace
}  // namespace warpverbs::host
