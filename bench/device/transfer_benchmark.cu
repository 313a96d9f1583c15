// Measures transfers that a GPU posts, end to end: two queue pairs of one NIC, connected to each other. The
// GPU checks every written word afterwards.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nic_label.hpp"
#include "transfer_runner.hpp"

namespace warpverbs::bench {
namespace {

using namespace device;
using Json = nlohmann::ordered_json;

struct Options {
  std::string nic;
  std::string placement = "gpu";
  int gpu = 0;
  std::string json;

  bool on_gpu() const { return placement == "gpu"; }
};

template <class A>
__global__ void PostToCompletionKernel(Stage* stage) {
  PostToCompletion<A>(*stage);
}

template <class A, class Put>
__global__ void OneWayKernel(Stage* stage) {
  OneWay<A, Put>(*stage, blockIdx.x);
}

template <class A>
__global__ void PingPongKernel(Stage* stage) {
  PingPong<A>(*stage, blockIdx.x);
}

template <class A, class Sharing, class Cooperation, uint32_t kBatch>
__global__ void StreamKernel(Stage* stage) {
  const Streamer self{.number = blockIdx.x * blockDim.x + threadIdx.x,
                      .all = gridDim.x * blockDim.x,
                      .block = blockIdx.x,
                      .last = threadIdx.x == blockDim.x - 1};
  if constexpr (std::is_same_v<Cooperation, Warp>) {
    Stream<A, Sharing, kBatch>(*stage, self, Warp(0xffffffff));
  } else {
    Stream<A, Sharing, kBatch>(*stage, self, Thread{});
  }
}

/// Rates of the kernels' clocks.
struct Clocks {
  uint64_t cycles, ns;  ///< lengths of the same period
  uint64_t step_ns;     ///< least observed advance of the shared clock
};

/// Waits until the GPU is awake, then observes both clocks for as long again.
__global__ void ClocksKernel(Clocks* clocks) {
  constexpr uint64_t kNs = 50'000'000;
  using A = arch::Cuda;
  for (const uint64_t start = A::NowNs(); A::NowNs() - start < kNs;) continue;
  const uint64_t start = A::NowNs(), cycles = clock64();
  uint64_t step = ~uint64_t{0}, now = start;
  while (now - start < kNs) {
    const uint64_t before = now;
    now = A::NowNs();
    if (now != before && now - before < step) step = now - before;
  }
  *clocks = {clock64() - cycles, now - start, step};
}

Clocks ReadClocks() {
  Clocks* clocks = nullptr;
  Check(cudaHostAlloc(&clocks, sizeof *clocks, cudaHostAllocMapped), "allocate host memory");
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
  ClocksKernel<<<1, 1, 0, stream>>>(clocks);
  Check(cudaStreamSynchronize(stream), "read the clocks");
  const Clocks read = *clocks;
  cudaStreamDestroy(stream);
  cudaFreeHost(clocks);
  return read;
}

/// Returns the sample below which `share` of the sorted samples are.
double Quantile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(rank, sorted.size() - 1)];
}

/// Prints figures as they arrive, and keeps them.
class Figures {
 public:
  explicit Figures(Runner& runner) : runner_(runner) {}

  const Json& json() const { return json_; }

  /// Times messages one at a time, for about 2 s after a few for warming up.
  ///
  /// @param ways  messages in a sample: 2 for a round trip
  void Latency(const Case& which, double ways = 1) {
    const double usual = std::max(Quantile(Samples(which, kFewest, ways), 0.5), kLeastUs);
    const auto wanted = static_cast<uint64_t>(2e6 / (usual * ways));
    const uint64_t most = std::min<uint64_t>(Stage::kSpans, kDataBytes / which.bytes);
    const std::vector<double> us =
        Samples(which, static_cast<uint32_t>(std::clamp<uint64_t>(wanted, kFewest, most)), ways);
    const double p50 = Quantile(us, 0.5), p99 = Quantile(us, 0.99), p999 = Quantile(us, 0.999);
    std::printf("%-46s %8zu %9.2f %9.2f %9.2f\n", which.name.c_str(), us.size(), p50, p99, p999);
    json_.push_back({{"name", which.name},
                     {"bytes", which.bytes},
                     {"samples", us.size()},
                     {"p50_us", p50},
                     {"p99_us", p99},
                     {"p99.9_us", p999}});
  }

  /// Times a stream of messages that takes at least a quarter of a second, or has 2^24 messages a thread.
  void Throughput(const Case& which, uint32_t batch = 1) {
    constexpr double kSeconds = 0.25, kTarget = 0.4;
    constexpr double kMaxCount = 1 << 24;
    uint32_t count = batch;
    double seconds = Seconds(which, count);
    while (seconds < kSeconds && count < kMaxCount) {
      const double factor = std::clamp(kTarget / seconds, 2.0, 32.0);
      count = static_cast<uint32_t>(std::min(kMaxCount, count * factor)) / batch * batch;
      seconds = Seconds(which, count);
    }
    const uint64_t messages = uint64_t{count} * which.posters;
    const double rate = static_cast<double>(messages) / seconds / 1e6, gbs = rate * which.bytes / 1e3;
    std::printf("%-46s %8u %11llu %9.3f %9.4f\n", which.name.c_str(), which.bytes,
                static_cast<unsigned long long>(messages), gbs, rate);
    json_.push_back({{"name", which.name},
                     {"bytes", which.bytes},
                     {"messages", messages},
                     {"GB_per_s", gbs},
                     {"M_messages_per_s", rate}});
  }

 private:
  static constexpr uint32_t kFewest = 1000;  // fewer have no 99.9th percentile
  static constexpr double kLeastUs = 0.1;    // a coarse clock may show 0

  /// Returns the spans in microseconds, sorted.
  std::vector<double> Samples(const Case& which, uint32_t count, double ways) {
    std::vector<double> us;
    for (const Span& span : runner_.Run(which, count, count))
      us.push_back(static_cast<double>(span.end_ns - span.begin_ns) / ways / 1e3);
    std::sort(us.begin(), us.end());
    return us;
  }

  /// Returns the time from the first block's first post to the last block's last completion.
  double Seconds(const Case& which, uint32_t count) {
    const std::vector<Span> spans = runner_.Run(which, count, which.blocks);
    uint64_t begin = spans[0].begin_ns, end = 0;
    for (const Span& span : spans) {
      begin = std::min(begin, span.begin_ns);
      end = std::max(end, span.end_ns);
    }
    return static_cast<double>(end - begin) / 1e9;
  }

  Runner& runner_;
  Json json_ = Json::array();
};

template <class A>
void MeasureLatencies(Figures& figures) {
  std::printf("\n%-46s %8s %9s %9s %9s\n", "latency in us", "samples", "p50", "p99", "p99.9");
  figures.Latency({.name = "post to completion, 8 B", .kernel = PostToCompletionKernel<A>});
  figures.Latency(
      {.name = "put until the target sees it, 8 B", .kernel = OneWayKernel<A, PlainPut>, .blocks = 2});
  figures.Latency({.name = "ping-pong, half a round trip, 8 B inline",
                   .kernel = PingPongKernel<A>,
                   .blocks = 2,
                   .answers = true},
                  2);
  for (const uint32_t bytes : {8u, 4096u}) {
    const std::string size = bytes == 8 ? "8 B" : "4 KiB";
    figures.Latency({.name = "PutSignal until WaitSignal, " + size + ", set",
                     .kernel = OneWayKernel<A, SignalledPut<false>>,
                     .blocks = 2,
                     .bytes = bytes,
                     .signals = true});
    figures.Latency({.name = "PutSignal until WaitSignal, " + size + ", add",
                     .kernel = OneWayKernel<A, SignalledPut<true>>,
                     .blocks = 2,
                     .bytes = bytes,
                     .signals = true});
  }
}

template <class A>
void MeasureThroughput(Figures& figures) {
  std::printf("\n%-46s %8s %11s %9s %9s\n", "writes", "bytes", "messages", "GB/s", "M/s");
  for (uint32_t bytes = 8; bytes <= 4 << 20; bytes *= bytes < 4096 ? 8 : 4) {
    figures.Throughput({.name = "1 warp, 32 by a doorbell",
                        .kernel = StreamKernel<A, Exclusive, Warp, 1>,
                        .threads = 32,
                        .posters = 32,
                        .bytes = bytes});
  }
  figures.Throughput({.name = "1 thread", .kernel = StreamKernel<A, Exclusive, Thread, 1>});
  figures.Throughput({.name = "1 thread, 32 by a doorbell", .kernel = StreamKernel<A, Exclusive, Thread, 32>},
                     32);
  figures.Throughput({.name = "1 warp, 256 by a doorbell",
                      .kernel = StreamKernel<A, Exclusive, Warp, 8>,
                      .threads = 32,
                      .posters = 32},
                     8);
  figures.Throughput({.name = "8 warps on one shared queue, 32 by a doorbell",
                      .kernel = StreamKernel<A, Shared, Warp, 1>,
                      .blocks = 8,
                      .threads = 32,
                      .posters = 256});
}

template <class A>
void MeasureAll(Figures& figures) {
  MeasureLatencies<A>(figures);
  MeasureThroughput<A>(figures);
}

/// Prints the machine and the settings that all figures belong to.
Json PrintSetting(const Options& options, const host::Device& device, const host::Endpoint& endpoint,
                  host::RegistrationMethod data) {
  const Clocks clocks = ReadClocks();
  const double mhz = static_cast<double>(clocks.cycles) * 1e3 / static_cast<double>(clocks.ns);
  const std::string gpu = GpuText(options.gpu), nic = NicLabel(device);
  const char* const doorbell = ToString(endpoint.doorbell_mode());
  std::printf("%s\n%s\n%s", gpu.c_str(), nic.c_str(), endpoint.Describe().c_str());
  std::printf("queues of %u slots and data in %s memory (data: %s), doorbell %s\n", HostSide::kDepth,
              options.on_gpu() ? "GPU" : "host", ToString(data), doorbell);
  std::printf("times by the GPU's globaltimer, which advances by %llu ns; its SMs ran at %.0f MHz\n",
              static_cast<unsigned long long>(clocks.step_ns), mhz);
  return {{"gpu", gpu},
          {"nic", nic},
          {"placement", options.placement},
          {"data", ToString(data)},
          {"doorbell", doorbell},
          {"clock", "globaltimer"},
          {"clock_step_ns", clocks.step_ns},
          {"sm_mhz", mhz}};
}

void Measure(const Options& options) {
  std::ofstream file;
  if (!options.json.empty()) {
    file.open(options.json);
    if (!file)
      throw std::runtime_error("Cannot write to " + options.json + ": " + std::strerror(errno) + ".");
  }
  const host::Gpu gpu(options.gpu);
  Check(cudaSetDevice(options.gpu), "use the GPU");
  const host::Device device(options.nic.empty() ? host::FirstActiveDevice() : options.nic);
  const Pair pair(device, gpu, options.on_gpu());
  Json json = PrintSetting(options, device, pair.a.endpoint, pair.a.target.method());
  Runner runner(gpu, pair);
  Figures figures(runner);
  if (pair.a.endpoint.ReleaseScope() == arch::Scope::kGpu) {
    MeasureAll<arch::Cuda>(figures);
  } else {
    MeasureAll<arch::CudaSystem>(figures);
  }
  if (!file.is_open()) return;
  json["figures"] = figures.json();
  if (!(file << json.dump(2) << std::endl))
    throw std::runtime_error("Cannot write to " + options.json + ": " + std::strerror(errno) + ".");
}

}  // namespace
}  // namespace warpverbs::bench

int main(int argc, char** argv) try {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // in a file, too, an error follows the figures before it
  warpverbs::bench::Options options;
  CLI::App app("Measures writes that a GPU posts, from end to end; see bench/README.md.");
  app.add_option("--nic", options.nic, "the RDMA device to use (the first with an active port)");
  app.add_option("--placement", options.placement, "the memory of queues and data: gpu or host (gpu)")
      ->check(CLI::IsMember({"gpu", "host"}));
  app.add_option("--gpu", options.gpu, "the GPU's number in the CUDA runtime (0)")->check(CLI::Range(0, 255));
  app.add_option("--json", options.json, "also write the figures to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s; see --help\n", argv[0], error.what());
    return 2;
  }
  warpverbs::bench::Measure(options);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
