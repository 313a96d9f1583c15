// Benchmarks of a transport: single writes and reads of 8 KiB to 256 MiB, registration, connecting.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>

#include "nic_label.hpp"
#include "pair.hpp"
#include "tests/transport/count_allocations.hpp"

namespace warpverbs::bench {
namespace {

constexpr int64_t kSmallest = 8192, kLargest = int64_t{256} << 20;

bool g_failed = false;

/// Reports an error. Google Benchmark prints it and continues; the exit status of the program shows it too.
void Fail(benchmark::State& state, const char* why) {
  g_failed = true;
  state.SkipWithError(why);
}

/// Waits for operations without allocating, unlike a future.
class Completion {
 public:
  /// Returns a completion token for one operation at a time.
  auto Token() {
    return [this](const transport::Status& status) {
      failed_ = !status.ok();
      done_.store(true, std::memory_order_release);
      done_.notify_one();
    };
  }
  bool Wait() {
    done_.wait(false, std::memory_order_acquire);
    done_.store(false, std::memory_order_relaxed);
    return !failed_;
  }

 private:
  std::atomic<bool> done_{false};
  bool failed_ = false;
};

/// @param start  starts a transfer between the regions
void Transfer(benchmark::State& state, const char* what,
              const std::function<void(TransportPair&, Region& here, Region& there, Completion&)>& start,
              bool reads) {
  const auto bytes = static_cast<size_t>(state.range(0));
  TransportPair pair;
  Region here(bytes), there(bytes);
  Region& source = reads ? there : here;
  for (size_t i = 0; i < bytes; ++i) source.pages.data()[i] = static_cast<std::byte>(i * 31 / 7);
  Completion completion;
  for (int warm = 0; warm < 100; ++warm) {
    start(pair, here, there, completion);
    if (!completion.Wait()) return Fail(state, what);
    if (bytes > size_t{1} << 20) break;
  }
  std::memset((reads ? here : there).pages.data(), 0, bytes);
  const uint64_t before = transport::Allocations();
  for (auto _ : state) {
    start(pair, here, there, completion);
    if (!completion.Wait()) return Fail(state, what);
  }
  const auto allocations = static_cast<double>(transport::Allocations() - before);
  if (std::memcmp(here.pages.data(), there.pages.data(), bytes) != 0) Fail(state, "the data are wrong");
  state.SetBytesProcessed(state.iterations() * state.range(0));
  state.counters["allocations"] = benchmark::Counter(allocations, benchmark::Counter::kAvgIterations);
}

void BM_RdmaTransport_Write(benchmark::State& state) {
  Transfer(
      state, "a write failed",
      [](TransportPair& pair, Region& here, Region& there, Completion& completion) {
        pair.a.Write(here.memory.CreateView(), there.memory.Remote(), {}, completion.Token());
      },
      false);
}
BENCHMARK(BM_RdmaTransport_Write)->RangeMultiplier(2)->Range(kSmallest, kLargest)->UseRealTime();

void BM_RdmaTransport_Read(benchmark::State& state) {
  Transfer(
      state, "a read failed",
      [](TransportPair& pair, Region& here, Region& there, Completion& completion) {
        pair.a.Read(here.memory.CreateMutableView(), there.memory.Remote(), {}, completion.Token());
      },
      true);
}
BENCHMARK(BM_RdmaTransport_Read)->RangeMultiplier(2)->Range(kSmallest, kLargest)->UseRealTime();

void BM_RdmaTransport_RegisterDeregister(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const host::HostPages pages(bytes);
  const Region keeps_the_device_open(4096);
  for (auto _ : state) {
    const transport::RdmaMemory memory(pages.data(), bytes, 0);
    if (memory.Reused()) Fail(state, "the memory was registered already");
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_RdmaTransport_RegisterDeregister)
    ->RangeMultiplier(16)
    ->Range(kSmallest, kLargest)
    ->UseRealTime();

void BM_RdmaTransport_BindConnect(benchmark::State& state) {
  transport::EventLoop loop;
  const Region region(4096), keeps_the_device_open(4096);
  for (auto _ : state) {
    TransportPair pair(&loop);
    ExpectSuccess(
        pair.a.Write(region.memory.CreateView(), region.memory.Remote()).get());  // waits for the peer
  }
}
BENCHMARK(BM_RdmaTransport_BindConnect)->UseRealTime();

}  // namespace
}  // namespace warpverbs::bench

int main(int argc, char** argv) try {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("nic", warpverbs::bench::NicLabel(warpverbs::host::Device()));
  benchmark::RunSpecifiedBenchmarks();
  return warpverbs::bench::g_failed ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
