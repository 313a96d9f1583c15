// Measures the cost of a post to a GPU in the best case: queues in GPU memory, doorbells in host memory,
// completions by a stand-in on the GPU. It uses no NIC, so the figures are not network figures. Every WQE of
// the last round, the record and the last doorbell are read back.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "check.hpp"
#include "measurement.hpp"
#include "queues.hpp"
#include "sink.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::bench {
namespace {

using namespace device;
using A = arch::Cuda;

constexpr int kLaunches = 9;

struct Job {
  /// In GPU memory, so that a kernel loads its own peer once. It would reload parameters again and again.
  const Peer* peers;
  uint32_t queues;
  uint32_t posts;                   ///< posts of each thread
  const ListEntry* list = nullptr;  ///< in GPU memory: kMostEntries of the peers' writes
};
constexpr uint32_t kMostEntries = 4096;

/// Runs a stand-in for each queue, one warp each.
__global__ void Sink(Job job, uint64_t wqes_each_queue, bool verifies, WrittenWqe wqe, Result* result) {
  const uint64_t deadline = A::NowNs() + kLaunchLimitNs;
  const WrittenWqe* const compared = verifies ? &wqe : nullptr;
  if (!RunSink(job.peers[blockIdx.x].view, wqes_each_queue, deadline, compared) && threadIdx.x == 0) {
    atomicAdd(&result->failures, 1);
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

/// Posts lists of `kEntries` writes of one place to another each, by warps. Thread 0 counts posts of one
/// entry.
template <class Sharing, uint32_t kEntries, RecordHint kHint>
__global__ void PostLists(Job job, Result* result) {
  const WaitLimit limit{A::NowNs() + kLaunchLimitNs};
  const Peer peer = job.peers[blockIdx.x % job.queues];
  if constexpr (kHint != RecordHint::kNone)
    __builtin_assume((peer.view.dbrec != nullptr) == (kHint == RecordHint::kRecord));
  SendQueue<A, Sharing, Warp> queue(peer.view, Warp(0xffffffff));
  Posted posted{};
  const uint64_t start = clock64();
  for (uint32_t i = 0; i < job.posts * 32 && posted.status.ok(); i += kEntries)
    posted = queue.PostList(job.list, kEntries, limit);
  const uint64_t end = clock64();
  const bool done = posted.status.ok() && queue.Wait(posted.ticket, limit).ok();
  if (blockIdx.x == 0 && threadIdx.x == 0) result->cycles = end - start;
  if (!done) atomicAdd(&result->failures, 1);
}

/// Posts, writes the completion in place of a NIC, and waits for it: what both cost a thread, without the
/// time in between, in which it polls.
///
/// The bounds, 1,536 threads on a multiprocessor, leave a thread 40 registers: as many as post and wait need
/// without a spill if the kernel is told whether there is a record. Without bounds the compiler takes more.
template <class Sharing, RecordHint kHint>
__global__ void __launch_bounds__(768, 2) PostAndWait(Job job, Result* result) {
  const WaitLimit limit{A::NowNs() + kLaunchLimitNs};
  const Peer peer = job.peers[0];
  if constexpr (kHint != RecordHint::kNone)
    __builtin_assume((peer.view.dbrec != nullptr) == (kHint == RecordHint::kRecord));
  SendQueue<A, Sharing> queue(peer.view);
  bool works = true;
  const uint64_t start = clock64();
  for (uint32_t i = 0; i < job.posts && works; ++i) {
    const Posted posted = queue.Post(Write(peer.remote, {peer.local.addr, kBytes, peer.local.lkey}), limit);
    if (posted.status.ok()) WriteCompletion(peer.view, posted.ticket.index);
    works = posted.status.ok() && queue.Wait(posted.ticket, limit).ok();
  }
  result->cycles = clock64() - start;
  if (!works) result->failures = 1;
}

/// Completes every WQE of the first round.
__global__ void CompleteAll(Job job) {
  const QueueView& view = job.peers[0].view;
  for (uint32_t index = view.cq_depth == 1 ? kDepth - 1 : 0; index < kDepth; ++index) {
    WriteCompletion(view, index);
  }
}

/// Times polls for ready completions in one thread, each of the next WQE, or bare loads of their CQEs.
template <bool kLoadOnly>
__global__ void Poll(Job job, Result* result) {
  const QueueView view = job.peers[0].view;
  SendQueue<A, Exclusive> queue(view);
  uint64_t seen = queue.Test({0}).ok();
  const uint64_t start = clock64();
  for (uint32_t i = 1; i <= job.posts; ++i) {
    if constexpr (kLoadOnly) {
      const uint8_t* const cqe = view.cqe + (i & (view.cq_depth - 1)) * sizeof(mlx5::Cqe64);
      seen += A::LoadCqeTail(cqe + mlx5::kCqeTailOffset + (seen >> 63)).high;
    } else {
      seen += queue.Test({view.cq_depth == 1 ? i % 8 : i}).ok();
    }
  }
  result->cycles = clock64() - start;
  if (!kLoadOnly && seen != job.posts + 1) result->failures = 1;
  if (kLoadOnly && seen == 0) result->failures = 1;  // so that the loads are not left out
}

/// Data that all measurements share.
struct Stage : Launcher {
  Stage() {
    const std::vector<ListEntry> entries(
        kMostEntries, {kLocal, kRemote, kBytes, mlx5::Be32{kLkeyBe}, mlx5::Be32{kRkeyBe}});  // none touch
    Check(cudaMalloc(&list, sizeof(ListEntry) * kMostEntries), "allocate a list");
    Check(cudaMemcpy(list, entries.data(), sizeof(ListEntry) * kMostEntries, cudaMemcpyDefault),
          "write a list");
  }
  ListEntry* list = nullptr;
};

struct Case {
  const char* name;
  uint32_t queues, blocks, threads;
  uint32_t posts;          ///< posts of each thread
  bool contended = false;  ///< the posters are Contended
  bool watches =
      false;  ///< a thread of the processor watches the doorbells, and a launch more verifies all WQEs
};

const WrittenWqe kWqe{static_cast<uint32_t>(mlx5::WqeOpcode::kRdmaWrite),
                      mlx5::ToBe32(kQpn << 8 | 3).raw,
                      {mlx5::ToBe64(kRemote).raw, kRkeyBe, uint64_t{kLkeyBe} << 32 | mlx5::ToBe32(kBytes).raw,
                       mlx5::ToBe64(kLocal).raw}};

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

/// Runs a kernel that posts, and prints its figures.
///
/// @param completes  the kernel writes its completions itself
void Run(Stage& stage, const Case& which, bool record, uint32_t cq_depth, void (*post)(Job, Result*),
         bool completes = false) {
  const uint32_t registers =
      Registers(post);  // loads the kernel, which is impossible while the stand-in runs
  std::vector<double> cycles, rates;
  double doorbells = 0;
  uint64_t seen = 0, unjudged = 0;
  for (int launch = 0; launch < kLaunches + (which.watches ? 1 : 0); ++launch) {
    const bool verifies = launch == kLaunches;  // whatever the stand-in's rate is then
    const Queues queues(which.queues, record, cq_depth, static_cast<size_t>(launch) * 1024,
                        which.contended ? uint32_t{kContended} : 0);
    const uint32_t posts = verifies ? which.posts / 8 : which.posts;
    const uint64_t wqes = uint64_t{which.blocks} * which.threads * posts / which.queues;
    const Job job{.peers = queues.peers(), .queues = which.queues, .posts = posts, .list = stage.list};
    std::optional<DoorbellWatcher> watcher;
    if (which.watches) watcher.emplace(queues.doorbells());
    *stage.result = {};
    if (!completes) Sink<<<which.queues, 32, 0, stage.sinks>>>(job, wqes, verifies, kWqe, stage.result);
    Check(cudaEventRecord(stage.begin, stage.posters), "record an event");
    post<<<which.blocks, which.threads, 0, stage.posters>>>(job, stage.result);
    Check(cudaEventRecord(stage.end, stage.posters), "record an event");
    Check(cudaStreamSynchronize(stage.posters), which.name);
    Check(cudaStreamSynchronize(stage.sinks), which.name);
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, stage.begin, stage.end), "read the time");
    if (stage.result->failures != 0) Fail(which.name, "posts, waits or stand-ins failed");
    if (watcher && watcher->Backwards() != 0)
      Fail(which.name, "a doorbell named an older WQE than the one before");
    if (!queues.Verify(wqes)) Fail(which.name, "a WQE, the record or the doorbell is not what was posted");
    if (verifies) continue;
    if (watcher) {
      doorbells = static_cast<double>(wqes) * which.queues / static_cast<double>(watcher->seen());
      seen += watcher->seen();
      unjudged += watcher->unjudged();
    }
    cycles.push_back(static_cast<double>(stage.result->cycles) / posts);
    rates.push_back(static_cast<double>(wqes) * which.queues / ms / 1e3);
  }
  std::printf("%-48s %-6s %-9s %8.0f %10.1f %10u", which.name, record ? "yes" : "no",
              cq_depth == 1 ? "collapsed" : "ring", Median(cycles), Median(rates), registers);
  if (which.watches)
    std::printf(" %10.1f %5.1f%%", doorbells,
                100 * static_cast<double>(seen - unjudged) / static_cast<double>(seen));
  std::printf("\n");
  std::fflush(stdout);
}

template <class Sharing, class Cooperation = Thread, uint32_t kBatch = 1>
void Measure(Stage& stage, Case which, bool record, bool hint = true, uint32_t cq_depth = 1) {
  which.contended = std::is_same_v<Sharing, Contended>;
  Run(stage, which, record, cq_depth,
      !hint    ? Post<Sharing, Cooperation, kBatch, RecordHint::kNone>
      : record ? Post<Sharing, Cooperation, kBatch, RecordHint::kRecord>
               : Post<Sharing, Cooperation, kBatch, RecordHint::kNoRecord>);
}

/// Measures lists by a warp on each queue: cycles for each entry that a lane writes, so that they compare
/// with posts.
template <class Sharing, uint32_t kEntries>
void MeasureList(Stage& stage, const char* name, bool record, uint32_t queues = 1) {
  const std::string text = std::string(name) + ", lists of " + std::to_string(kEntries);
  Run(stage,
      {.name = text.c_str(),
       .queues = queues,
       .blocks = queues,
       .threads = 32,
       .posts = kEntries < 32 || queues > 1 ? 4'096u : 32'768u,  // so that launches take about as long
       .contended = std::is_same_v<Sharing, Contended>},
      record, 1,
      record ? PostLists<Sharing, kEntries, RecordHint::kRecord>
             : PostLists<Sharing, kEntries, RecordHint::kNoRecord>);
}
template <class Sharing>
void MeasureLists(Stage& stage, const char* name, bool record) {
  MeasureList<Sharing, 1>(stage, name, record);
  MeasureList<Sharing, 8>(stage, name, record);
  MeasureList<Sharing, 32>(stage, name, record);
  MeasureList<Sharing, 64>(stage, name, record);
  MeasureList<Sharing, 256>(stage, name, record);
  MeasureList<Sharing, 1024>(stage, name, record);
  MeasureList<Sharing, 4096>(stage, name, record);
}

/// The same posts with a collapsed CQ and with a ring.
template <class Sharing, class Cooperation = Thread>
void MeasureBoth(Stage& stage, const Case& which, bool record) {
  for (const uint32_t cq_depth : {1u, kDepth}) {
    Measure<Sharing, Cooperation>(stage, which, record, true, cq_depth);
  }
}

template <class Sharing>
void MeasureRoundTrips(Stage& stage, const char* name, bool record) {
  for (const uint32_t cq_depth : {1u, kDepth}) {
    Run(stage, {name, 1, 1, 1, 50'000}, record, cq_depth,
        record ? PostAndWait<Sharing, RecordHint::kRecord> : PostAndWait<Sharing, RecordHint::kNoRecord>,
        true);
  }
}

/// What the ring costs, which keeps the cause of an error.
void CompareRings(Stage& stage, bool record) {
  MeasureRoundTrips<Exclusive>(stage, "exclusive, 1 thread, waits for each post", record);
  MeasureRoundTrips<Shared>(stage, "shared, 1 thread, waits for each post", record);
  MeasureBoth<Exclusive>(stage, {"exclusive, 1 thread", 1, 1, 1, 100'000}, record);
  MeasureBoth<Shared>(stage, {"shared, 1 thread", 1, 1, 1, 100'000}, record);
  MeasureBoth<Exclusive, Warp>(stage, {"exclusive, 1 warp", 1, 1, 32, 32'768}, record);
  MeasureBoth<Shared, Warp>(stage, {"shared, 1 warp", 1, 1, 32, 32'768}, record);
  MeasureBoth<Shared, Warp>(stage, {"shared, 8 warps on 1 queue", 1, 8, 32, 8'192}, record);
  MeasureBoth<Shared, Warp>(stage, {"shared, 64 warps on 1 queue, by warp", 1, 64, 32, 2'048}, record);
  MeasureBoth<Exclusive, Warp>(stage, {"exclusive, 64 queues, a warp each", 64, 64, 32, 8'192}, record);
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
}

/// Lists by a warp, beside the same writes by its lanes, one by one and in batches of 8, which are 256
/// writes.
void CompareLists(Stage& stage, bool record) {
  Measure<Exclusive, Warp>(stage, {"exclusive, 1 warp", 1, 1, 32, 32'768}, record);
  Measure<Exclusive, Warp, 8>(stage, {"exclusive, 1 warp, batches of 8", 1, 1, 32, 32'768}, record);
  MeasureLists<Exclusive>(stage, "exclusive, 1 warp", record);
  Measure<Shared, Warp>(stage, {"shared, 1 warp", 1, 1, 32, 32'768}, record);
  Measure<Shared, Warp, 8>(stage, {"shared, 1 warp, batches of 8", 1, 1, 32, 32'768}, record);
  Measure<Shared, Block>(stage, {"shared, 1 block of 8 warps", 1, 1, 256, 4'096}, record);
  MeasureLists<Shared>(stage, "shared, 1 warp", record);
}

/// Posters of different blocks on one queue, and the lone ones beside them.
template <class Sharing>
void MeasureSharers(Stage& stage, const std::string& kind, bool record) {
  const auto measure = [&]<class C>(C, const char* text, uint32_t blocks, uint32_t threads, uint32_t posts) {
    const std::string name = kind + ", " + text;
    Measure<Sharing, C>(stage,
                        {.name = name.c_str(),
                         .queues = 1,
                         .blocks = blocks,
                         .threads = threads,
                         .posts = posts,
                         .watches = true},
                        record);
  };
  measure(Thread{}, "1 thread", 1, 1, 100'000);
  measure(Thread{}, "2 threads of 2 blocks", 2, 1, 32'768);
  measure(Thread{}, "8 threads of 8 blocks", 8, 1, 32'768);
  measure(Thread{}, "64 threads of 64 blocks", 64, 1, 8'192);
  measure(Warp(0), "1 warp", 1, 32, 32'768);
  measure(Warp(0), "2 warps of 2 blocks", 2, 32, 16'384);
  measure(Warp(0), "8 warps of 8 blocks", 8, 32, 8'192);
  measure(Warp(0), "64 warps of 64 blocks", 64, 32, 2'048);
  measure(Warp(0), "256 warps of 256 blocks", 256, 32, 1'024);
  measure(Block(0), "64 warps in blocks of 8", 8, 256, 2'048);
}
void MeasureContention(Stage& stage, bool record) {
  MeasureSharers<Shared>(stage, "shared", record);
  MeasureSharers<RelaxedShared>(stage, "relaxed", record);
  MeasureSharers<Contended>(stage, "contended", record);
  Measure<Exclusive>(stage, {"exclusive, 1 thread", 1, 1, 1, 100'000}, record);
  Measure<Exclusive, Warp>(stage, {"exclusive, 1 warp", 1, 1, 32, 32'768}, record);
}

/// 64 queues at once: of a warp each, of a block each, and of a warp each that posts lists.
template <class Sharing>
void MeasureQueues(Stage& stage, const std::string& kind, bool record) {
  const std::string name = kind + ", 64 queues, a warp each";
  Measure<Sharing, Warp>(stage, {name.c_str(), 64, 64, 32, 8'192}, record);
  if constexpr (!std::is_same_v<Sharing, Exclusive>) {
    const std::string blocks = kind + ", 64 queues, a block of 8 warps each";
    Measure<Sharing, Block>(stage, {blocks.c_str(), 64, 64, 256, 2'048}, record);
  }
  MeasureList<Sharing, 256>(stage, name.c_str(), record, 64);
}
void MeasureManyQueues(Stage& stage, bool record) {
  MeasureQueues<Exclusive>(stage, "exclusive", record);
  MeasureQueues<Shared>(stage, "shared", record);
  MeasureQueues<RelaxedShared>(stage, "relaxed", record);
  MeasureQueues<Contended>(stage, "contended", record);
}

void MeasurePolls(Stage& stage, uint32_t cq_depth) {
  std::vector<double> polls, loads;
  for (int launch = 0; launch < kLaunches; ++launch) {
    const Queues queues(1, true, cq_depth, static_cast<size_t>(launch) * 1024);
    const Job job{.peers = queues.peers(), .queues = 1, .posts = 10'000};
    const QueueView& view = queues.views()[0];
    // Every WQE of the first round is posted and complete; the cursor stands behind the first.
    const uint64_t tail = uint64_t{kDepth} << 32 | kDepth, cursor = uint64_t{1} << 32 | 1;
    Check(cudaMemcpy(&view.control->tail, &tail, sizeof tail, cudaMemcpyDefault), "write the tail");
    Check(cudaMemcpy(&view.control->cursor, &cursor, sizeof cursor, cudaMemcpyDefault), "write the cursor");
    CompleteAll<<<1, 1, 0, stage.posters>>>(job);
    Check(cudaStreamSynchronize(stage.posters), "complete all");
    *stage.result = {};
    Poll<false><<<1, 1, 0, stage.posters>>>(job, stage.result);
    Check(cudaStreamSynchronize(stage.posters), "poll");
    if (stage.result->failures != 0) Fail("poll", "nothing was complete");
    polls.push_back(static_cast<double>(stage.result->cycles) / job.posts);
    Poll<true><<<1, 1, 0, stage.posters>>>(job, stage.result);
    Check(cudaStreamSynchronize(stage.posters), "poll");
    loads.push_back(static_cast<double>(stage.result->cycles) / job.posts);
  }
  std::printf("poll of a ready completion, %s: %.0f cycles, of which %.0f for the load of the CQE\n",
              cq_depth == 1 ? "collapsed" : "ring", Median(polls), Median(loads));
}

}  // namespace
}  // namespace warpverbs::bench

int main(int argc, char** argv) {
  using namespace warpverbs::bench;
  const std::string option = argc > 1 ? argv[1] : "";
  const bool lists = option == "--lists", contention = option == "--contention",
             queues = option == "--queues";
  const bool all = argc == 1;
  if (argc > 2 || (!all && !lists && !contention && !queues)) {
    const bool help = option == "--help";
    std::fprintf(
        help ? stdout : stderr,
        help ? "Usage: device_post_benchmark [--lists | --contention | --queues]\n\n"
               "Measures what posts cost on the first GPU, without a NIC; with --lists, --contention or "
               "--queues, only lists, only posters of one queue, or only 64 queues at once, and what they "
               "compare with; see bench/README.md.\n"
             : "device_post_benchmark takes no options but --lists, --contention, --queues and --help.\n");
    return help ? 0 : 2;
  }
  std::printf(
      "%s; queues in GPU memory, doorbells in host memory, rung by the GPU, completions by a stand-in on the "
      "GPU\n",
      GpuText(0).c_str());
  std::printf(
      "medians of %d launches; cycles: of one thread or lane per post\n\n"
      "%-48s %-6s %-9s %8s %10s %10s %10s %6s\n",
      kLaunches, "", "record", "CQ", "cycles", "M WQE/s", "registers", "WQE/bell", "judged");
  Stage stage;
  const auto measure = [&](void (*rows)(Stage&, bool)) {
    for (const bool record : {true, false}) rows(stage, record);
  };
  if (all || lists) measure(CompareLists);
  if (all || contention) measure(MeasureContention);
  if (all || queues) measure(MeasureManyQueues);
  if (!all) return 0;
  measure(CompareRings);
  for (const uint32_t cq_depth : {1u, kDepth}) MeasurePolls(stage, cq_depth);
  measure(MeasurePosts);
  return 0;
}
