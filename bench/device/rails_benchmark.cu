// Measures the cost of writes over rails to a GPU in the best case, as post_benchmark.cu does for one queue:
// queues in GPU memory, doorbells in host memory, completions by a stand-in on the GPU. It uses no NIC, so
// the figures are not network figures. Every WQE of the last round, the records and the last doorbells are
// read back.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "check.hpp"
#include "measurement.hpp"
#include "queues.hpp"
#include "sink.hpp"
#include "warpverbs/device/rails.hpp"

namespace warpverbs::bench {
namespace {

using namespace device;
using A = arch::Cuda;

constexpr int kLaunches = 7;
constexpr uint64_t kPartBytes = 4096;  // the least part of a long write

struct Job {
  const RailsView* rails;  ///< in GPU memory
  RailRemoteMemory remote;
  RailLocalMemory local;
  uint32_t posts;  ///< writes of each thread
};

/// Runs a stand-in for each rail, one warp each.
__global__ void Sink(Job job, uint64_t wqes_each_rail, Result* result) {
  const uint64_t deadline = A::NowNs() + kLaunchLimitNs;
  if (!RunSink(job.rails->queues[blockIdx.x], wqes_each_rail, deadline) && threadIdx.x == 0) {
    atomicAdd(&result->failures, 1);
  }
}

/// Writes, each block as a caller of its own, and waits for the last write.
template <class Sharing, class Cooperation>
__global__ void Post(Job job, Result* result) {
  const WaitLimit limit{A::NowNs() + kLaunchLimitNs};
  Rails<A, Sharing, Cooperation> rails(*job.rails, blockIdx.x, WholeGroup<Cooperation>());
  RailPosted posted{};
  const uint64_t start = clock64();
  for (uint32_t i = 0; i < job.posts && posted.status.ok(); ++i)
    posted = rails.Write(job.remote, job.local, limit);
  const uint64_t end = clock64();
  const bool done = posted.status.ok() && rails.Wait(posted.ticket, limit).ok();
  if (blockIdx.x == 0 && threadIdx.x == 0) result->cycles = end - start;
  if (!done) atomicAdd(&result->failures, 1);
}

/// Data that all measurements share.
struct Stage : Launcher {
  Stage() { Check(cudaMalloc(&rails, sizeof *rails), "allocate a view of rails"); }
  RailsView* rails = nullptr;
};

struct Case {
  const char* name;
  uint32_t blocks_per_rail;  ///< 0: one block for all rails
  uint32_t threads, posts;
};

[[noreturn]] void Fail(const char* name, const char* why) {
  std::fprintf(stderr, "device_rails_benchmark: %s: %s.\n", name, why);
  std::exit(1);
}

/// Writes over rails, and prints the figures.
///
/// @param cut  each write is cut into a part for every rail; otherwise it has 8 bytes and takes the caller's
/// rail
void Run(Stage& stage, const Case& which, uint32_t rails, bool cut, bool record, void (*post)(Job, Result*)) {
  const uint32_t blocks = which.blocks_per_rail == 0 ? 1 : which.blocks_per_rail * rails;
  const uint32_t rails_per_write = cut ? rails : 1;
  const uint64_t wqes = uint64_t{blocks} * which.threads * which.posts * rails_per_write / rails;
  cudaFuncAttributes attributes{};  // loads the kernel, which is impossible while the stand-in runs
  Check(cudaFuncGetAttributes(&attributes, post), "read a kernel's attributes");
  std::vector<double> cycles, rates;
  for (int launch = 0; launch < kLaunches; ++launch) {
    const Queues queues(rails, record, 1, static_cast<size_t>(launch) * 1024);
    RailsView view{.queues = {}, .count = rails, .cut_bytes = kPartBytes};
    std::copy(queues.views().begin(), queues.views().end(), view.queues);
    Check(cudaMemcpy(stage.rails, &view, sizeof view, cudaMemcpyDefault), "write a view of rails");
    Job job{.rails = stage.rails,
            .remote = {.addr = kRemote, .rkeys = {}},
            .local = {.addr = kLocal, .bytes = cut ? kPartBytes * rails : kBytes, .lkeys = {}},
            .posts = which.posts};
    for (uint32_t rail = 0; rail < kMaxRails; ++rail) {
      job.remote.rkeys[rail] = mlx5::Be32{kRkeyBe};
      job.local.lkeys[rail] = mlx5::Be32{kLkeyBe};
    }
    Check(cudaDeviceSynchronize(), "prepare the rails");
    *stage.result = {};
    Sink<<<rails, 32, 0, stage.sinks>>>(job, wqes, stage.result);
    Check(cudaEventRecord(stage.begin, stage.posters), "record an event");
    post<<<blocks, which.threads, 0, stage.posters>>>(job, stage.result);
    Check(cudaEventRecord(stage.end, stage.posters), "record an event");
    Check(cudaStreamSynchronize(stage.posters), which.name);
    Check(cudaStreamSynchronize(stage.sinks), which.name);
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, stage.begin, stage.end), "read the time");
    if (stage.result->failures != 0) Fail(which.name, "posts, waits or stand-ins failed");
    if (!queues.Verify(wqes, cut ? kPartBytes : 0))
      Fail(which.name, "a WQE, a record or a doorbell is not what was posted");
    cycles.push_back(static_cast<double>(stage.result->cycles) / which.posts);
    rates.push_back(static_cast<double>(wqes) * rails / ms / 1e3);
  }
  std::printf("%-46s %-6s %5u %8.0f %10.1f %10d %8zu\n", which.name, record ? "yes" : "no", rails,
              Median(cycles), Median(rates), attributes.numRegs, attributes.localSizeBytes);
  std::fflush(stdout);
}

void MeasureRails(Stage& stage, uint32_t rails, bool record) {
  Run(stage, {"8 B, exclusive, a thread each rail", 1, 1, 32'768}, rails, false, record,
      Post<Exclusive, Thread>);
  Run(stage, {"8 B, shared, a thread each rail", 1, 1, 32'768}, rails, false, record, Post<Shared, Thread>);
  Run(stage, {"8 B, exclusive, a warp each rail", 1, 32, 8'192}, rails, false, record, Post<Exclusive, Warp>);
  Run(stage, {"8 B, shared, a warp each rail", 1, 32, 8'192}, rails, false, record, Post<Shared, Warp>);
  Run(stage, {"8 B, shared, 8 warps each rail", 8, 32, 4'096}, rails, false, record, Post<Shared, Warp>);
  Run(stage, {"4 KiB a rail, exclusive, 1 thread", 0, 1, 16'384}, rails, true, record,
      Post<Exclusive, Thread>);
  Run(stage, {"4 KiB a rail, shared, 1 thread", 0, 1, 16'384}, rails, true, record, Post<Shared, Thread>);
  Run(stage, {"4 KiB a rail, exclusive, 1 warp", 0, 32, 4'096}, rails, true, record, Post<Exclusive, Warp>);
  Run(stage, {"4 KiB a rail, shared, 1 warp", 0, 32, 4'096}, rails, true, record, Post<Shared, Warp>);
}

}  // namespace
}  // namespace warpverbs::bench

int main(int argc, char** argv) {
  using namespace warpverbs::bench;
  if (argc > 1) {
    const bool help = argc == 2 && std::string(argv[1]) == "--help";
    std::fprintf(
        help ? stdout : stderr,
        help ? "Usage: device_rails_benchmark\n\nMeasures what writes over 1, 2, 4 and 8 rails cost on the "
               "first GPU, without a NIC; see bench/README.md.\n"
             : "device_rails_benchmark takes no options but --help.\n");
    return help ? 0 : 2;
  }
  std::printf(
      "%s; queues in GPU memory, doorbells in host memory, rung by the GPU, completions by a stand-in on the "
      "GPU\n",
      GpuText(0).c_str());
  std::printf(
      "medians of %d launches; cycles: of one thread or lane per write; M WQE/s: of all rails; local: bytes "
      "of a thread\n\n"
      "%-46s %-6s %5s %8s %10s %10s %8s\n",
      kLaunches, "", "record", "rails", "cycles", "M WQE/s", "registers", "local");
  Stage stage;
  for (const bool record : {true, false})
    for (const uint32_t rails : {1u, 2u, 4u, 8u}) MeasureRails(stage, rails, record);
  return 0;
}
