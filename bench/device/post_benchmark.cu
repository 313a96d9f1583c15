// Measures the cost of a post to a GPU in the best case: queues in GPU memory, doorbells in host memory,
// completions by a stand-in on the GPU. It uses no NIC, so the figures are not network figures. Every WQE of
// the last round, the record and the last doorbell are read back.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "check.hpp"
#include "queues.hpp"
#include "sink.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::bench {
namespace {

using namespace device;
using A = arch::Cuda;

constexpr int kLaunches = 9;
constexpr uint64_t kLaunchLimitNs = 5'000'000'000;

struct Job {
  /// In GPU memory, so that a kernel loads its own peer once. It would reload parameters again and again.
  const Peer* peers;
  uint32_t queues;
  uint32_t posts;  ///< posts of each thread
};

/// A kernel's results, in host memory.
struct Result {
  uint64_t cycles;    ///< cycles of the first thread
  uint32_t failures;  ///< threads whose posts or waits failed
};

/// Runs a stand-in for each queue, one thread each.
__global__ void Sink(Job job, uint64_t wqes_each_queue, Result* result) {
  const uint64_t deadline = A::NowNs() + kLaunchLimitNs;
  if (!RunSink(job.peers[blockIdx.x].view, wqes_each_queue, deadline)) atomicAdd(&result->failures, 1);
}

template <class Cooperation>
__device__ Cooperation WholeGroup() {
  if constexpr (std::is_same_v<Cooperation, Thread>) {
    return {};
  } else {
    return Cooperation(0xffffffff);
  }
}

/// What the kernel knows at compile time of its queues' doorbell record; with kNone it tests for a record.
enum class RecordHint { kRecord, kNoRecord, kNone };

/// Posts, with a deadline for each call, and waits for the last post.
template <class Sharing, class Cooperation, uint32_t kBatch, RecordHint kHint>
__global__ void Post(Job job, Result* result) {
  const WaitLimit limit{A::NowNs() + kLaunchLimitNs};
  const Peer peer = job.peers[blockIdx.x % job.queues];
  if constexpr (kHint != RecordHint::kNone)
    __builtin_assume((peer.view.dbrec != nullptr) == (kHint == RecordHint::kRecord));
  SendQueue<A, Sharing, Cooperation> queue(peer.view, WholeGroup<Cooperation>());
  const auto write = [&] { return Write(peer.remote, {peer.local.addr, kBytes, peer.local.lkey}); };
  Posted posted{};
  const uint64_t start = clock64();
  for (uint32_t i = 0; i < job.posts && posted.status.ok(); i += kBatch) {
    if constexpr (kBatch == 1) {
      posted = queue.Post(write(), limit);
    } else {
      auto batch = queue.Begin(kBatch, limit);
      for (uint32_t j = 0; j < kBatch; ++j)
        static_cast<void>(batch.Add(write(), j + 1 < kBatch ? 0 : mlx5::kCqeAlways));
      posted = batch.Submit();
    }
  }
  const uint64_t end = clock64();
  const bool done = posted.status.ok() && queue.Wait(posted.ticket, limit).ok();
  if (blockIdx.x == 0 && threadIdx.x == 0) result->cycles = end - start;
  if (!done) atomicAdd(&result->failures, 1);
}

/// Times polls for ready completions in one thread, or bare loads of the CQE.
template <bool kLoadOnly>
__global__ void Poll(Job job, Result* result) {
  SendQueue<A, Exclusive> queue(job.peers[0].view);
  uint64_t seen = 0;
  const uint64_t start = clock64();
  for (uint32_t i = 0; i < job.posts; ++i) {
    if constexpr (kLoadOnly) {
      seen += A::LoadCqeTail(job.peers[0].view.cqe + mlx5::kCqeTailOffset + (seen >> 63)).high;
    } else {
      seen += queue.Test({i % 8}).ok();
    }
  }
  result->cycles = clock64() - start;
  if (seen == 0) result->failures = 1;
}

/// Data that all measurements share.
struct Stage {
  Stage() {
    Check(cudaHostAlloc(&result, sizeof *result, cudaHostAllocMapped), "allocate a result");
    for (cudaStream_t* stream : {&posters, &sinks})
      Check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "make a stream");
    for (cudaEvent_t* event : {&begin, &end}) Check(cudaEventCreate(event), "make an event");
  }
  Result* result = nullptr;
  cudaStream_t posters = nullptr, sinks = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
};

struct Case {
  const char* name;
  uint32_t queues, blocks, threads;
  uint32_t posts;  ///< posts of each thread
};

template <class Kernel>
uint32_t Registers(Kernel* kernel) {
  cudaFuncAttributes attributes{};
  Check(cudaFuncGetAttributes(&attributes, kernel), "read a kernel's attributes");
  return static_cast<uint32_t>(attributes.numRegs);
}

[[noreturn]] void Fail(const char* name, const char* why) {
  std::fprintf(stderr, "device_post_benchmark: %s: %s.\n", name, why);
  std::exit(1);
}

template <class Sharing, class Cooperation = Thread, uint32_t kBatch = 1>
void Measure(Stage& stage, const Case& which, bool record, bool hint = true) {
  const uint64_t wqes = uint64_t{which.blocks} * which.threads * which.posts / which.queues;
  auto* const post = !hint    ? Post<Sharing, Cooperation, kBatch, RecordHint::kNone>
                     : record ? Post<Sharing, Cooperation, kBatch, RecordHint::kRecord>
                              : Post<Sharing, Cooperation, kBatch, RecordHint::kNoRecord>;
  const uint32_t registers =
      Registers(post);  // loads the kernel, which is impossible while the stand-in runs
  std::vector<double> cycles, rates;
  for (int launch = 0; launch < kLaunches; ++launch) {
    const Queues queues(which.queues, record, static_cast<size_t>(launch) * 1024);
    const Job job{.peers = queues.peers(), .queues = which.queues, .posts = which.posts};
    *stage.result = {};
    Sink<<<which.queues, 1, 0, stage.sinks>>>(job, wqes, stage.result);
    Check(cudaEventRecord(stage.begin, stage.posters), "record an event");
    post<<<which.blocks, which.threads, 0, stage.posters>>>(job, stage.result);
    Check(cudaEventRecord(stage.end, stage.posters), "record an event");
    Check(cudaStreamSynchronize(stage.posters), which.name);
    Check(cudaStreamSynchronize(stage.sinks), which.name);
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, stage.begin, stage.end), "read the time");
    if (stage.result->failures != 0) Fail(which.name, "posts, waits or stand-ins failed");
    if (!queues.Verify(wqes)) Fail(which.name, "a WQE, the record or the doorbell is not what was posted");
    cycles.push_back(static_cast<double>(stage.result->cycles) / which.posts);
    rates.push_back(static_cast<double>(wqes) * which.queues / ms / 1e3);
  }
  std::printf("%-46s %-6s %8.0f %10.1f %10u\n", which.name, record ? "yes" : "no", Median(cycles),
              Median(rates), registers);
  std::fflush(stdout);
}

void MeasurePosts(Stage& stage, bool record) {
  Measure<Exclusive>(stage, {"exclusive, 1 thread", 1, 1, 1, 100'000}, record);
  Measure<Exclusive>(stage, {"exclusive, 1 thread, not told of the record", 1, 1, 1, 100'000}, record, false);
  Measure<Shared>(stage, {"shared, 1 thread", 1, 1, 1, 100'000}, record);
  Measure<RelaxedShared>(stage, {"relaxed, 1 thread", 1, 1, 1, 100'000}, record);
  Measure<Exclusive, Thread, 4>(stage, {"exclusive, 1 thread, batches of 4", 1, 1, 1, 320'000}, record);
  Measure<Exclusive, Thread, 16>(stage, {"exclusive, 1 thread, batches of 16", 1, 1, 1, 320'000}, record);
  Measure<Exclusive, Thread, 32>(stage, {"exclusive, 1 thread, batches of 32", 1, 1, 1, 320'000}, record);
  Measure<Shared, Thread, 4>(stage, {"shared, 1 thread, batches of 4", 1, 1, 1, 320'000}, record);
  Measure<Shared, Thread, 16>(stage, {"shared, 1 thread, batches of 16", 1, 1, 1, 320'000}, record);
  Measure<Shared, Thread, 32>(stage, {"shared, 1 thread, batches of 32", 1, 1, 1, 320'000}, record);
  Measure<Exclusive, Warp>(stage, {"exclusive, 1 warp", 1, 1, 32, 32'768}, record);
  Measure<Shared, Warp>(stage, {"shared, 1 warp", 1, 1, 32, 32'768}, record);
  Measure<RelaxedShared, Warp>(stage, {"relaxed, 1 warp", 1, 1, 32, 32'768}, record);
  Measure<Shared, Thread>(stage, {"shared, 8 threads of 8 blocks on 1 queue", 1, 8, 1, 32'768}, record);
  Measure<Shared, Warp>(stage, {"shared, 8 warps on 1 queue", 1, 8, 32, 8'192}, record);
  Measure<RelaxedShared, Warp>(stage, {"relaxed, 8 warps on 1 queue", 1, 8, 32, 8'192}, record);
  Measure<Shared, Warp>(stage, {"shared, 64 warps on 1 queue, by warp", 1, 64, 32, 2'048}, record);
  Measure<RelaxedShared, Warp>(stage, {"relaxed, 64 warps on 1 queue, by warp", 1, 64, 32, 2'048}, record);
  Measure<Shared, Block>(stage, {"shared, 64 warps on 1 queue, blocks of 4", 1, 16, 128, 2'048}, record);
  Measure<Shared, Block>(stage, {"shared, 64 warps on 1 queue, blocks of 8", 1, 8, 256, 2'048}, record);
  Measure<Shared, Block>(stage, {"shared, 64 warps on 1 queue, blocks of 16", 1, 4, 512, 2'048}, record);
  Measure<RelaxedShared, Block>(stage, {"relaxed, 64 warps on 1 queue, blocks of 8", 1, 8, 256, 2'048},
                                record);
  Measure<Exclusive, Warp>(stage, {"exclusive, 64 queues, a warp each", 64, 64, 32, 8'192}, record);
  Measure<Shared, Warp>(stage, {"shared, 64 queues, a warp each", 64, 64, 32, 8'192}, record);
  Measure<RelaxedShared, Warp>(stage, {"relaxed, 64 queues, a warp each", 64, 64, 32, 8'192}, record);
}

void MeasurePolls(Stage& stage) {
  std::vector<double> polls, loads;
  for (int launch = 0; launch < kLaunches; ++launch) {
    const Queues queues(1, true, static_cast<size_t>(launch) * 1024);
    const Job job{.peers = queues.peers(), .queues = 1, .posts = 10'000};
    const QueueView& view = queues.views()[0];
    // Every WQE of the first round is posted and complete.
    const uint64_t tail = uint64_t{kDepth} << 32 | kDepth;
    const uint64_t cqe = uint64_t{(kDepth - 1) >> 8} << 32 | uint64_t{(kDepth - 1) & 0xff} << 40;
    Check(cudaMemcpy(view.control, &tail, sizeof tail, cudaMemcpyDefault), "write the tail");
    Check(cudaMemcpy(const_cast<uint8_t*>(view.cqe) + 56, &cqe, sizeof cqe, cudaMemcpyDefault),
          "write a CQE");
    *stage.result = {};
    Poll<false><<<1, 1, 0, stage.posters>>>(job, stage.result);
    Check(cudaStreamSynchronize(stage.posters), "poll");
    if (stage.result->failures != 0) Fail("poll", "nothing was complete");
    polls.push_back(static_cast<double>(stage.result->cycles) / job.posts);
    Poll<true><<<1, 1, 0, stage.posters>>>(job, stage.result);
    Check(cudaStreamSynchronize(stage.posters), "poll");
    loads.push_back(static_cast<double>(stage.result->cycles) / job.posts);
  }
  std::printf("\npoll of a ready completion: %.0f cycles, of which %.0f for the load of the CQE\n",
              Median(polls), Median(loads));
}

}  // namespace
}  // namespace warpverbs::bench

int main(int argc, char** argv) {
  using namespace warpverbs::bench;
  if (argc > 1) {
    const bool help = std::string(argv[1]) == "--help";
    std::fprintf(help ? stdout : stderr,
                 help ? "Usage: device_post_benchmark\n\nMeasures what posts cost on the first "
                        "GPU, without a NIC; see bench/README.md.\n"
                      : "device_post_benchmark takes no options but --help.\n");
    return help ? 0 : 2;
  }
  std::printf(
      "%s; queues in GPU memory, doorbells in host memory, rung by the GPU, completions by a stand-in on the "
      "GPU\n",
      GpuText(0).c_str());
  std::printf(
      "medians of %d launches; cycles: of one thread or lane per post\n\n"
      "%-46s %-6s %8s %10s %10s\n",
      kLaunches, "", "record", "cycles", "M WQE/s", "registers");
  Stage stage;
  for (const bool record : {true, false}) MeasurePosts(stage, record);
  MeasurePolls(stage);
  return 0;
}
