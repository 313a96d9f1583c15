// Measures the time from post to completion of single writes, and the bandwidth of many writes beside memcpy.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

#include "nic_label.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::bench {
namespace {

using arch::Cpu;
using Queue = device::SendQueue<Cpu, device::Exclusive>;

constexpr size_t kSmallest = 8, kLargest = 1 << 20;

device::WaitLimit Soon() { return {.deadline_ns = Cpu::NowNs() + 10'000'000'000}; }

/// Two connected endpoints, and memory of each.
struct Pair {
  explicit Pair(const host::Device& device)
      : a(device),
        b(device),
        source(kLargest),
        target(kLargest),
        source_region(device, source.data(), kLargest),
        target_region(device, target.data(), kLargest, {.remote_write = true}) {
    a.Connect(b.Info());
    b.Connect(a.Info());
    std::fill_n(source.data(), kLargest, std::byte{42});
  }

  device::Posted Put(Queue& queue, size_t bytes) const {
    const host::MemoryView from = source_region.View(), to = target_region.View();
    return queue.Post(device::Write(to.Remote(), from.First(bytes).Local()), Soon());
  }

  host::Endpoint a, b;
  host::HostPages source, target;
  host::MemoryRegion source_region, target_region;
};

double Quantile(std::vector<double>& samples, double q) {
  const auto at = samples.begin() + static_cast<ptrdiff_t>(q * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

void RoundTrip(benchmark::State& state, const host::Device& device) {
  const Pair pair(device);
  Queue queue(pair.a.View());
  std::vector<double> samples;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const device::Posted posted = pair.Put(queue, kSmallest);
    const device::Status status = queue.Wait(posted.ticket, Soon());
    samples.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    state.SetIterationTime(samples.back());
    if (!posted.status.ok() || !status.ok()) return state.SkipWithError("the write failed");
  }
  state.counters["median"] = Quantile(samples, 0.5);
  state.counters["p99"] = Quantile(samples, 0.99);
}

void Write(benchmark::State& state, const host::Device& device) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Pair pair(device);
  Queue queue(pair.a.View());
  for (auto _ : state) {
    if (!pair.Put(queue, bytes).status.ok()) return state.SkipWithError("the write failed");
  }
  // The time excludes the writes in flight at the end: at most a queue's depth, few among all.
  if (!queue.Flush(Soon()).ok()) state.SkipWithError("the writes failed");
  if (std::memcmp(pair.source.data(), pair.target.data(), bytes) != 0)
    state.SkipWithError("the data are wrong");
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void Memcpy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const host::HostPages source(kLargest), target(kLargest);
  std::fill_n(source.data(), kLargest, std::byte{42});
  for (auto _ : state) {
    std::memcpy(target.data(), source.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

}  // namespace
}  // namespace warpverbs::bench

int main(int argc, char** argv) try {
  namespace bench = warpverbs::bench;
  benchmark::Initialize(&argc, argv);
  const warpverbs::host::Device device(bench::NicOf(argc, argv));
  benchmark::AddCustomContext("nic", bench::NicLabel(device));
  const auto round_trip = [&](benchmark::State& state) { bench::RoundTrip(state, device); };
  const auto write = [&](benchmark::State& state) { bench::Write(state, device); };
  benchmark::RegisterBenchmark("round_trip", round_trip)->UseManualTime()->Iterations(200'000);
  for (const int64_t size : {8, 64, 512, 4096, 16384, 65536, 262144, 1048576}) {
    benchmark::RegisterBenchmark("write", write)->Arg(size)->UseRealTime()->MinTime(0.2);
    benchmark::RegisterBenchmark("memcpy", bench::Memcpy)->Arg(size)->UseRealTime()->MinTime(0.2);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
