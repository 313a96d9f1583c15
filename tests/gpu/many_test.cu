// Large numbers: millions of writes, a thousand kernels, replayed graphs.
#include "pair.hpp"
#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::gpu {
namespace {

using device::Contended;
using device::Exclusive;
using device::SendQueue;
using device::Shared;
using device::Warp;

class Many : public Placed {};
WARPVERBS_PLACED(Many);

struct Job {
  QueueView queue;
  uint64_t *source, *target;
  LocalMemory local;
  RemoteMemory remote;
  uint64_t rounds;
  uint64_t first = 0;              ///< number of the first round
  const uint64_t* stop = nullptr;  ///< pointer to a word that ends the kernel early if it is not 0
};

struct Outcome {
  unsigned long long wrong = 0;  ///< words with a wrong value
  unsigned long long failed = 0;
  unsigned long long done = 0;  ///< complete and correct writes
  Status status;
};

Job JobOf(const Pair& pair, uint64_t rounds) {
  return {pair.a.View(),         pair.source.data(),
          pair.target.data(),    pair.source.Local(0, 1 << 20),
          pair.target.Remote(0), rounds};
}

constexpr uint32_t kBatch = 16;

/// Each lane writes kBatch words of its own in each round, waits, and checks them.
template <class A, class Sharing = Shared>
__global__ void PutRounds(Job job, Outcome* outcome) {
  SendQueue<A, Sharing, Warp> queue(job.queue, Warp(0xffffffff));
  const uint64_t first = uint64_t{blockIdx.x * blockDim.x + threadIdx.x} * kBatch;
  for (uint64_t round = job.first; round < job.first + job.rounds; ++round) {
    if (job.stop != nullptr && __any_sync(0xffffffff, A::Load(job.stop) != 0)) break;
    for (uint32_t i = 0; i < kBatch; ++i) A::Store(&job.source[first + i], (round + 1) << 24 | (first + i));
    __threadfence_system();
    auto batch = queue.Begin(kBatch, Within<A>());
    for (uint32_t i = 0; i < kBatch; ++i) {
      const Posted added = batch.Add(device::Write({job.remote.addr + 8 * (first + i), job.remote.rkey},
                                                   {job.local.addr + 8 * (first + i), 8, job.local.lkey}),
                                     i + 1 < kBatch ? 0 : mlx5::kCqeAlways);
      if (!added.status.ok()) atomicAdd(&outcome->failed, 1);
    }
    const Posted posted = batch.Submit();
    const Status status = posted.status.ok() ? queue.Wait(posted.ticket, Within<A>()) : posted.status;
    if (!__all_sync(0xffffffff, status.ok())) {
      if (!status.ok()) outcome->status = status;
      atomicAdd(&outcome->failed, 1);
      break;
    }
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < kBatch; ++i)
      wrong += A::Load(&job.target[first + i]) != ((round + 1) << 24 | (first + i));
    if (wrong != 0) atomicAdd(&outcome->wrong, wrong);
    atomicAdd(&outcome->done, kBatch - wrong);
  }
}

void ExpectAll(const Outcome& outcome, uint64_t writes) {
  EXPECT_EQ(outcome.failed, 0U) << host::Describe(outcome.status);
  EXPECT_EQ(outcome.wrong, 0U);
  EXPECT_EQ(outcome.done, writes);
}

template <class Sharing>
void ExpectTenMillion() {
  constexpr uint32_t kBlocks = 16;
  constexpr uint64_t kRounds = 10'000'000 / (kBlocks * 32 * kBatch) + 1;
  const Pair pair({.a = {.depth = 32768, .contended = std::is_same_v<Sharing, Contended>}});
  const Mapped<Outcome> outcome(pair.gpu_a);
  WithArch(pair.scope(), [&](auto arch) {
    RunKernel(pair.gpu_a, kBlocks, 32, PutRounds<decltype(arch), Sharing>, JobOf(pair, kRounds),
              outcome.get());
  });
  ExpectAll(*outcome, kRounds * kBlocks * 32 * kBatch);
  EXPECT_GE(outcome->done, 10'000'000U);
}

TEST(TenMillion, WritesArriveIntact) { ExpectTenMillion<Shared>(); }
TEST(TenMillion, WritesOfContendedWarpsArriveIntact) { ExpectTenMillion<Contended>(); }

template <class Sharing>
void RunInARow(Placement placement) {
  constexpr uint32_t kKernels = 1000;
  const Pair pair({.placement = placement, .a = {.depth = 1024}});
  const Mapped<Outcome> outcome(pair.gpu_a);
  Job job = JobOf(pair, 1);
  WithArch(pair.scope(), [&](auto arch) {
    const CudaStream stream(0);
    for (; job.first < kKernels; ++job.first)
      PutRounds<decltype(arch), Sharing><<<1, 32, 0, stream.get()>>>(job, outcome.get());
    stream.Wait();
  });
  ExpectAll(*outcome, uint64_t{kKernels} * 32 * kBatch);
}

TEST_P(Many, KernelsContinueWhereTheLastKernelEnded) { RunInARow<Shared>(GetParam()); }
TEST_P(Many, ExclusiveKernelsContinueWhereTheLastKernelEnded) { RunInARow<Exclusive>(GetParam()); }

TEST_P(Many, CapturedGraphsCanBeReplayed) {
  constexpr uint32_t kReplays = 50;
  const Pair pair({.placement = GetParam(), .a = {.depth = 1024}});
  const Mapped<Outcome> outcome(pair.gpu_a);
  WithArch(pair.scope(), [&](auto arch) {
    const CudaStream stream(0);
    Load(PutRounds<decltype(arch)>);
    CheckCuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "capture");
    for (uint64_t kernel = 0; kernel < 3; ++kernel) {
      Job job = JobOf(pair, 2);
      job.first = 2 * kernel;
      PutRounds<decltype(arch)><<<1, 32, 0, stream.get()>>>(job, outcome.get());
    }
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CheckCuda(cudaStreamEndCapture(stream.get(), &graph), "capture");
    CheckCuda(cudaGraphInstantiate(&executable, graph, 0), "instantiate a graph");
    for (uint32_t replay = 0; replay < kReplays; ++replay)
      CheckCuda(cudaGraphLaunch(executable, stream.get()), "launch a graph");
    stream.Wait();
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  });
  ExpectAll(*outcome, uint64_t{kReplays} * 3 * 2 * 32 * kBatch);
}

/// Occupies the rest of a GPU, so that only its copy engines can move data for the NIC.
///
/// @param stop  in GPU memory: polls of host memory by so many threads would take all of the bus
__global__ void Occupy(const uint64_t* stop, unsigned long long* running) {
  if (threadIdx.x == 0) atomicAdd(running, 1);
  const uint64_t deadline = arch::Cuda::NowNs() + kTimeoutNs;
  while (arch::Cuda::Load(stop) == 0 && arch::Cuda::NowNs() < deadline) __nanosleep(100'000);
}

/// Waits on the host until a word that kernels change is at least `value`.
::testing::AssertionResult Reaches(const unsigned long long& word, unsigned long long value) {
  for (const uint64_t deadline = arch::Cpu::NowNs() + kTimeoutNs / 2; arch::Cpu::NowNs() < deadline;) {
    if (*const_cast<const volatile unsigned long long*>(&word) >= value) return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << word << " of " << value;
}

TEST_P(Many, WritesProceedWhileKernelsFillTheGpu) {
  const Pair pair({.placement = GetParam(), .a = {.depth = 1024}});
  const Mapped<Outcome> outcome(pair.gpu_a);
  const Memory stop(pair.device(), pair.gpu_a, 8);
  const Mapped<unsigned long long> running(pair.gpu_a);
  int multiprocessors = 0, threads = 0;
  CheckCuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
            "count multiprocessors");
  CheckCuda(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0), "count threads");
  const auto blocks = static_cast<uint32_t>(multiprocessors * threads / 1024);
  const CudaStream occupied(0), stream(0);
  WithArch(pair.scope(), [&](auto arch) {
    Job job = JobOf(pair, 1'000'000);
    job.stop = stop.data();
    Load(Occupy);
    PutRounds<decltype(arch)><<<1, 32, 0, stream.get()>>>(job, outcome.get());
    EXPECT_TRUE(Reaches(outcome->done, 1)) << "the posting kernel runs";
    Occupy<<<blocks, 1024, 0, occupied.get()>>>(stop.data(), running.get());
    EXPECT_TRUE(Reaches(*running, blocks - 1)) << "the GPU is full of other blocks";
    EXPECT_TRUE(Reaches(outcome->done, outcome->done + 50 * 32 * kBatch)) << "the posting kernel continues";
  });
  stop.SetWord(0, 1);
  occupied.Wait();
  stream.Wait();
  EXPECT_EQ(outcome->failed, 0U) << host::Describe(outcome->status);
  EXPECT_EQ(outcome->wrong, 0U);
}

}  // namespace
}  // namespace warpverbs::gpu
