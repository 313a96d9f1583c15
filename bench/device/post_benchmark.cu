// What a post costs a GPU when nothing stands in its way: queues in GPU memory, doorbells in host memory,
// completions by a stand-in on the GPU. There is no NIC, so these are not network numbers. Every WQE of the
// last round is read back.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sink.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace {

using namespace warpverbs;
using namespace warpverbs::device;
using A = arch::Cuda;

constexpr uint32_t kMaxQueues = 64;
constexpr uint32_t kDepth = 32768;
constexpr uint32_t kQpn = 0x123456;
constexpr uint32_t kRkeyBe = 0x44332211;
constexpr uint32_t kLkeyBe = 0x88776655;
constexpr int kLaunches = 9;
constexpr uint64_t kLaunchLimitNs = 5'000'000'000;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "device_post_benchmark: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

struct Job {
  QueueView views[kMaxQueues];
  uint32_t queues;
  uint32_t posts;            ///< of each thread
  uint64_t wqes_each_queue;  ///< what the stand-in waits for
  uint64_t* cycles;          ///< of the first thread
  uint32_t* failures;
};

/// Blocks [0, queues) are the stand-ins, one thread each; each warp of the others posts to its queue.
template <class Sharing, class Cooperation, uint32_t kBatch>
__global__ void PostAll(const __grid_constant__ Job job) {
  const uint64_t deadline = A::NowNs() + kLaunchLimitNs;
  if (blockIdx.x < job.queues) {
    if (threadIdx.x == 0 && !bench::RunSink(job.views[blockIdx.x], job.wqes_each_queue, deadline)) {
      atomicAdd(job.failures, 1);
    }
    return;
  }
  constexpr bool kAlone = std::is_same_v<Cooperation, Thread>;
  if (kAlone && threadIdx.x != 0) return;
  const uint32_t queue_index = (blockIdx.x - job.queues) % job.queues;
  SendQueue<A, Sharing, Cooperation> queue(job.views[queue_index], [] {
    if constexpr (kAlone) {
      return Thread{};
    } else {
      return Warp(0xffffffff);
    }
  }());
  const RemoteMemory remote{0x1122334455667788, {kRkeyBe}};
  const LocalMemory local{0x99aabbccddeeff00, 8, {kLkeyBe}};
  const Limit limit{deadline};
  uint32_t failed = 0;
  const auto post = [&] {
    if constexpr (kBatch == 1) {
      failed |= !queue.Post(Write(remote, local), limit).status.ok();
    } else {
      auto batch = queue.Begin(kBatch, limit);
      for (uint32_t i = 0; i < kBatch; ++i)
        batch.Add(Write(remote, local), i + 1 < kBatch ? 0 : mlx5::kCqeAlways);
      failed |= !batch.Submit().status.ok();
    }
  };
  const uint64_t start = clock64();
  for (uint32_t i = 0; i < job.posts; i += kBatch) post();
  const uint64_t end = clock64();
  queue.Save();
  if (blockIdx.x == job.queues && threadIdx.x == 0) *job.cycles = end - start;
  if (failed != 0) atomicAdd(job.failures, 1);
}

/// Queues, each with memory of its own, in one allocation that starts at another place for each launch.
class Queues {
 public:
  Queues(uint32_t count, bool record, size_t offset) : count_(count) {
    Check(cudaMalloc(&memory_, kMaxOffset + kEach * count), "cudaMalloc");
    Check(cudaMemset(memory_, 0, kMaxOffset + kEach * count), "cudaMemset");
    Check(cudaHostAlloc(&doorbells_, kLine * count, cudaHostAllocMapped), "cudaHostAlloc");
    std::memset(doorbells_, 0, kLine * count);
    for (uint32_t i = 0; i < count; ++i) {
      uint8_t* const base = memory_ + offset + kEach * i;
      uint8_t* const cqe = base + kDepth * mlx5::kWqebbBytes;
      Check(cudaMemset(cqe, 0xff, sizeof(mlx5::Cqe64)), "cudaMemset");
      uint64_t* doorbell = nullptr;
      Check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&doorbell), doorbells_ + kLine * i, 0), "map");
      views_.push_back({.sq = base,
                        .doorbell = doorbell,
                        .dbrec = record ? reinterpret_cast<uint32_t*>(cqe + kLine) : nullptr,
                        .cqe = cqe,
                        .control = reinterpret_cast<QueueControl*>(cqe + 2 * kLine),
                        .qpn_be = mlx5::ToBe32(kQpn << 8).raw,
                        .depth = kDepth,
                        .log_max_message = 30,
                        .sink_lkey_be = kLkeyBe,
                        .flags = 0});
    }
  }
  ~Queues() {
    cudaFree(memory_);
    cudaFreeHost(doorbells_);
  }
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  const std::vector<QueueView>& views() const { return views_; }

  /// Whether the last round of every queue holds what was posted, and the last doorbell is that of the last
  /// WQE.
  bool Verify(uint64_t wqes) const {
    std::vector<uint32_t> ring(kDepth * mlx5::kWqebbBytes / sizeof(uint32_t));
    for (uint32_t i = 0; i < count_; ++i) {
      Check(cudaMemcpy(ring.data(), views_[i].sq, kDepth * mlx5::kWqebbBytes, cudaMemcpyDefault),
            "cudaMemcpy");
      for (uint64_t index = wqes - std::min<uint64_t>(wqes, kDepth); index < wqes; ++index) {
        const uint32_t* const wqe = ring.data() + index % kDepth * mlx5::kWqebbBytes / sizeof(uint32_t);
        const bool good = wqe[0] == mlx5::ToBe32(static_cast<uint32_t>(index & 0xffff) << 8 | 0x08).raw &&
                          wqe[1] == mlx5::ToBe32(kQpn << 8 | 3).raw && wqe[6] == kRkeyBe &&
                          wqe[8] == mlx5::ToBe32(8).raw && wqe[9] == kLkeyBe;
        if (!good) return false;
      }
      const uint32_t* const last = ring.data() + (wqes - 1) % kDepth * mlx5::kWqebbBytes / sizeof(uint32_t);
      if (std::memcmp(doorbells_ + kLine * i, last, sizeof(uint64_t)) != 0) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kLine = 128;
  static constexpr size_t kEach = kDepth * mlx5::kWqebbBytes + 4096;
  static constexpr size_t kMaxOffset = 16384;

  uint32_t count_;
  uint8_t* memory_ = nullptr;
  uint8_t* doorbells_ = nullptr;
  std::vector<QueueView> views_;
};

struct Case {
  const char* name;
  uint32_t queues;
  uint32_t warps;  ///< on all queues together
  uint32_t lanes;  ///< that post
  uint32_t posts;  ///< of each of them
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Sharing, class Cooperation, uint32_t kBatch = 1>
void Measure(const Case& which, bool record) {
  uint64_t* cycles = nullptr;
  uint32_t* failures = nullptr;
  Check(cudaMallocHost(&cycles, sizeof *cycles), "cudaMallocHost");
  Check(cudaMallocHost(&failures, sizeof *failures), "cudaMallocHost");
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  Check(cudaEventCreate(&begin), "cudaEventCreate");
  Check(cudaEventCreate(&end), "cudaEventCreate");
  const uint64_t wqes = uint64_t{which.warps} * which.lanes * which.posts / which.queues;
  std::vector<double> cycles_each, rates;
  for (int launch = 0; launch < kLaunches; ++launch) {
    const Queues queues(which.queues, record, static_cast<size_t>(launch) * 1024);
    Job job{.views = {},
            .queues = which.queues,
            .posts = which.posts,
            .wqes_each_queue = wqes,
            .cycles = cycles,
            .failures = failures};
    std::copy(queues.views().begin(), queues.views().end(), job.views);
    *failures = 0;
    Check(cudaDeviceSynchronize(), "memset");
    Check(cudaEventRecord(begin, stream), "cudaEventRecord");
    PostAll<Sharing, Cooperation, kBatch><<<which.queues + which.warps, 32, 0, stream>>>(job);
    Check(cudaEventRecord(end, stream), "cudaEventRecord");
    Check(cudaStreamSynchronize(stream), which.name);
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (*failures != 0 || !queues.Verify(wqes)) {
      std::fprintf(stderr, "device_post_benchmark: %s: %u failures, or a WQE is not what was posted\n",
                   which.name, *failures);
      std::exit(1);
    }
    cycles_each.push_back(static_cast<double>(*cycles) / which.posts);
    rates.push_back(static_cast<double>(wqes) * which.queues / ms / 1e3);
  }
  std::printf("%-44s %-9s %10.0f %12.1f\n", which.name, record ? "strict" : "no record", Median(cycles_each),
              Median(rates));
  std::fflush(stdout);
  cudaFreeHost(cycles);
  cudaFreeHost(failures);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--help") {
    std::puts(
        "Usage: device_post_benchmark\n\nMeasures what posts cost on the first GPU, without a NIC; see "
        "bench/README.md.");
    return 0;
  }
  cudaDeviceProp properties{};
  Check(cudaGetDeviceProperties(&properties, 0), "no GPU");
  int clock_khz = 0;
  Check(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0), "clock");
  std::printf(
      "%s, %d MHz; queues in GPU memory, doorbells in host memory, completions by a stand-in on the GPU;\n"
      "medians of %d launches; cycles: of one thread or lane per post; M/s: WQEs of all\n\n%-44s %-9s %10s "
      "%12s\n",
      properties.name, clock_khz / 1000, kLaunches, "", "record", "cycles", "M WQE/s");
  for (const bool record : {true, false}) {
    Measure<Exclusive, Thread>({"exclusive, 1 thread", 1, 1, 1, 100'000}, record);
    Measure<Shared, Thread>({"shared, 1 thread", 1, 1, 1, 100'000}, record);
    Measure<Exclusive, Thread, 16>({"exclusive, 1 thread, batches of 16", 1, 1, 1, 320'000}, record);
    Measure<Shared, Thread, 16>({"shared, 1 thread, batches of 16", 1, 1, 1, 320'000}, record);
    Measure<Exclusive, Warp>({"exclusive, 1 warp", 1, 1, 32, 32'768}, record);
    Measure<Shared, Warp>({"shared, 1 warp", 1, 1, 32, 32'768}, record);
    Measure<Shared, Warp>({"shared, 8 warps on 1 queue", 1, 8, 32, 8'192}, record);
    Measure<Shared, Warp>({"shared, 64 warps on 1 queue", 1, 64, 32, 1'024}, record);
    Measure<Shared, Thread>({"shared, 8 threads of 8 warps on 1 queue", 1, 8, 1, 32'768}, record);
    Measure<Exclusive, Warp>({"exclusive, 64 queues, a warp each", 64, 64, 32, 8'192}, record);
    Measure<Shared, Warp>({"shared, 64 queues, a warp each", 64, 64, 32, 8'192}, record);
  }
  return 0;
}
