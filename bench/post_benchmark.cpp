// Measures the processor time of a post. Nothing executes the writes meanwhile, and draining them is not
// timed.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <exception>

#include "nic_label.hpp"
#include "posters.hpp"

namespace warpverbs::bench {
namespace {

void Post(benchmark::State& state, const host::Device& device, const PosterKind& kind) {
  VerbsQueue queue(device);
  const auto poster = kind.make(queue);
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    poster->PostBatch();
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    poster->Drain();
  }
  const auto posts = static_cast<double>(state.iterations()) * VerbsQueue::kDepth;
  state.counters["per_post"] =
      benchmark::Counter(posts, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

}  // namespace
}  // namespace warpverbs::bench

int main(int argc, char** argv) try {
  namespace bench = warpverbs::bench;
  benchmark::Initialize(&argc, argv);
  const warpverbs::host::Device device(bench::NicOf(argc, argv));
  benchmark::AddCustomContext("nic", bench::NicLabel(device));
  for (const bench::PosterKind& kind : bench::PosterKinds()) {
    const auto post = [&](benchmark::State& state) { bench::Post(state, device, kind); };
    // Draining takes longer than posting, so the time alone would not bound the iterations.
    benchmark::RegisterBenchmark(kind.name, post)
        ->UseManualTime()
        ->Iterations(500)
        ->Repetitions(9)
        ->DisplayAggregatesOnly();
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
