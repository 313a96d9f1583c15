// Threads, warps and blocks that post together or share a queue, with queues of several depths.
#include <tuple>

#include "pair.hpp"
#include "warpverbs/host/shared_completions.hpp"

namespace warpverbs::gpu {
namespace {

using device::Block;
using device::Contended;
using device::Exclusive;
using device::RelaxedShared;
using device::SendQueue;
using device::Shared;
using device::Thread;
using device::Warp;

struct Job {
  QueueView queue;
  uint64_t *source, *target;
  LocalMemory local;
  RemoteMemory remote;
  uint32_t rounds;
};

/// Returns fewer rounds for queues in host memory, which are slow to share.
uint32_t RoundsFor(Placement placement) { return placement == Placement::kGpu ? 60 : 20; }

Job JobOf(const Pair& pair, uint32_t rounds) {
  return {pair.a.View(),         pair.source.data(),
          pair.target.data(),    pair.source.Local(0, 1 << 20),
          pair.target.Remote(0), rounds};
}

struct Outcome {
  unsigned long long wrong = 0;
  unsigned long long failed = 0;
  Status status;  ///< status of one that failed
};

template <class Cooperation>
__device__ Cooperation WholeGroup() {
  if constexpr (std::is_same_v<Cooperation, Thread>) {
    return {};
  } else {
    return Cooperation(__activemask());
  }
}

/// Each thread writes its own word in each round, waits, and checks the target.
template <class A, class Sharing, class Cooperation>
__global__ void PutWords(Job job, Outcome* outcome) {
  SendQueue<A, Sharing, Cooperation> queue(job.queue, WholeGroup<Cooperation>());
  const uint64_t me = blockIdx.x * blockDim.x + threadIdx.x;
  for (uint64_t round = 1; round <= job.rounds; ++round) {
    A::Store(&job.source[me], round << 32 | me);
    __threadfence_system();
    const Posted posted = queue.Post(device::Write({job.remote.addr + 8 * me, job.remote.rkey},
                                                   {job.local.addr + 8 * me, 8, job.local.lkey}),
                                     Within<A>());
    const Status status = posted.status.ok() ? queue.Wait(posted.ticket, Within<A>()) : posted.status;
    if (!status.ok()) {
      atomicAdd(&outcome->failed, 1);
      outcome->status = status;
    } else if (A::Load(&job.target[me]) != (round << 32 | me)) {
      atomicAdd(&outcome->wrong, 1);
    }
    if constexpr (!std::is_same_v<Cooperation, Thread>)
      __syncthreads();  // the threads of a group post together
  }
}

struct Shape {
  uint32_t blocks, threads, depth;
};

/// Expects that all words of a grid's threads arrive through queue a of `pair`.
template <class Sharers, class Cooperation>
void ExpectWords(const Pair& pair, uint32_t blocks, uint32_t threads, uint32_t rounds) {
  const Mapped<Outcome> outcome(pair.gpu_a);
  WithArch(pair.scope(), [&](auto arch) {
    RunKernel(pair.gpu_a, blocks, threads, PutWords<decltype(arch), Sharers, Cooperation>,
              JobOf(pair, rounds), outcome.get());
  });
  EXPECT_EQ(outcome->failed, 0U) << host::Describe(outcome->status);
  EXPECT_EQ(outcome->wrong, 0U);
}

class Sharing : public testing::TestWithParam<std::tuple<Placement, Shape>> {
 protected:
  template <class Sharers, class Cooperation>
  void Expect() const {
    const auto [placement, shape] = GetParam();
    const Pair pair({.placement = placement,
                     .a = {.depth = shape.depth, .contended = std::is_same_v<Sharers, Contended>}});
    ExpectWords<Sharers, Cooperation>(pair, shape.blocks, shape.threads, RoundsFor(placement));
    EXPECT_EQ(pair.a.LastError(), std::nullopt);
  }
};

std::string NameOf(const testing::TestParamInfo<std::tuple<Placement, Shape>>& info) {
  const Shape& shape = std::get<Shape>(info.param);
  return std::string(std::get<Placement>(info.param) == Placement::kGpu ? "OnTheGpu" : "InHostMemory") + "_" +
         std::to_string(shape.blocks) + "x" + std::to_string(shape.threads) + "_depth" +
         std::to_string(shape.depth);
}

INSTANTIATE_TEST_SUITE_P(, Sharing,
                         testing::Combine(testing::Values(Placement::kGpu, Placement::kHost),
                                          testing::Values(Shape{1, 32, 128}, Shape{8, 64, 128},
                                                          Shape{4, 96, 16}, Shape{3, 70, 256},
                                                          Shape{16, 32, 4096})),
                         NameOf);

TEST_P(Sharing, ThreadsPostAlone) { Expect<Shared, Thread>(); }
TEST_P(Sharing, WarpsPostTogether) { Expect<Shared, Warp>(); }
TEST_P(Sharing, BlocksPostTogether) { Expect<Shared, Block>(); }
TEST_P(Sharing, RelaxedThreadsPostAlone) { Expect<RelaxedShared, Thread>(); }
TEST_P(Sharing, RelaxedWarpsPostTogether) { Expect<RelaxedShared, Warp>(); }
TEST_P(Sharing, RelaxedBlocksPostTogether) { Expect<RelaxedShared, Block>(); }
TEST_P(Sharing, ContendedThreadsPostAlone) { Expect<Contended, Thread>(); }
TEST_P(Sharing, ContendedWarpsPostTogether) { Expect<Contended, Warp>(); }
TEST_P(Sharing, ContendedBlocksPostTogether) { Expect<Contended, Block>(); }

class ExclusiveQueue : public Placed {};
WARPVERBS_PLACED(ExclusiveQueue);

template <class Cooperation>
void ExpectExclusive(Placement placement, uint32_t threads, uint32_t depth) {
  const Pair pair({.placement = placement, .a = {.depth = depth}});
  ExpectWords<Exclusive, Cooperation>(pair, 1, threads, RoundsFor(placement));
}

TEST_P(ExclusiveQueue, CompletesWritesOfAThread) { ExpectExclusive<Thread>(GetParam(), 1, 16); }
TEST_P(ExclusiveQueue, CompletesWritesOfAWarp) { ExpectExclusive<Warp>(GetParam(), 32, 64); }
TEST_P(ExclusiveQueue, CompletesWritesOfAWarpWithFewerSlotsThanLanes) {
  ExpectExclusive<Warp>(GetParam(), 32, 8);
}

TEST_P(ExclusiveQueue, CompletesWritesWithACompletionRing) {
  const Pair pair({.placement = GetParam(), .a = {.depth = 64, .cq_mode = host::CqMode::kRing}});
  ExpectWords<Shared, Warp>(pair, 4, 64, RoundsFor(GetParam()));
}

TEST(SharedCompletions, AreDrainedByThePostersOfAllQueues) {
  const std::shared_ptr<host::Device> device = e2e::OpenNic();
  const host::Gpu gpu;
  host::SharedCompletions ring(*device, {.depth = 256, .max_queues = 2, .gpu = &gpu});
  const PairOptions options{.placement = Placement::kHost, .a = {.depth = 64, .completions = &ring}};
  const Pair first(options, device), second(options, device);
  const Mapped<Outcome> outcomes(gpu, 2);
  using Arch = arch::CudaSystem;
  auto* const kernel = PutWords<Arch, Shared, Warp>;
  Load(kernel);
  const CudaStream streams[] = {CudaStream(0), CudaStream(0)};
  const Pair* const pairs[] = {&first, &second};
  for (uint32_t i = 0; i < 2; ++i) kernel<<<2, 64, 0, streams[i].get()>>>(JobOf(*pairs[i], 20), &outcomes[i]);
  for (const CudaStream& stream : streams) stream.Wait();
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(outcomes[i].failed, 0U) << host::Describe(outcomes[i].status);
    EXPECT_EQ(outcomes[i].wrong, 0U);
  }
}

using Setting = std::tuple<Placement, host::DoorbellMode>;
class Doorbells : public testing::TestWithParam<Setting> {};

std::string NameOfSetting(const testing::TestParamInfo<Setting>& info) {
  const host::DoorbellMode mode = std::get<host::DoorbellMode>(info.param);
  return std::string(std::get<Placement>(info.param) == Placement::kGpu ? "OnTheGpu" : "InHostMemory") +
         (mode == host::DoorbellMode::kGpu         ? "_TheGpuRings"
          : mode == host::DoorbellMode::kHostProxy ? "_TheHostRings"
                                                   : "_TheHostPosts");
}

INSTANTIATE_TEST_SUITE_P(, Doorbells,
                         testing::Values(Setting{Placement::kGpu, host::DoorbellMode::kGpu},
                                         Setting{Placement::kGpu, host::DoorbellMode::kHostProxy},
                                         Setting{Placement::kHost, host::DoorbellMode::kGpu},
                                         Setting{Placement::kHost, host::DoorbellMode::kHostProxy},
                                         Setting{Placement::kHost, host::DoorbellMode::kHostPosts}),
                         NameOfSetting);

TEST_P(Doorbells, ReachTheNicInEachMode) {
  const auto [placement, mode] = GetParam();
  const Pair pair({.placement = placement, .a = {.depth = 64, .doorbell = mode}});
  EXPECT_EQ(pair.a.doorbell_mode(), mode);
  ExpectWords<Shared, Warp>(pair, 4, 64, 20);
}

}  // namespace
}  // namespace warpverbs::gpu
