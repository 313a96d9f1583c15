// Measures the fences and stores of a post with one thread, so that the library's order of them stays a
// measured choice: isolated fences, and whole recipes in steady state. It uses no NIC. Every recipe is timed
// with its doorbell in host memory and in GPU memory.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "check.hpp"

namespace warpverbs::bench {
namespace {

constexpr uint32_t kDepth = 32768, kWqeBytes = 64;
constexpr uint32_t kRounds = 20'000;
constexpr int kLaunches = 9;

/// Targets of a recipe's stores. `zero` is 0, which the compiler cannot know.
struct Targets {
  uint8_t* ring;
  uint32_t* record;
  uint64_t* doorbell;
  uint64_t zero;
};

__device__ uint8_t* Slot(const Targets& to, uint32_t i) { return to.ring + size_t{i % kDepth} * kWqeBytes; }
__device__ void StoreWqe(const Targets& to, uint32_t i) {
  uint8_t* const slot = Slot(to, i);
  for (int segment = 0; segment < 3; ++segment) {
    asm volatile("st.global.v2.b64 [%0], {%1, %2};" ::"l"(slot + 16 * segment), "l"(uint64_t{i}),
                 "l"(uint64_t{i})
                 : "memory");
  }
}
__device__ void StoreRecord(const Targets& to, uint32_t i) {
  asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::"l"(to.record), "r"(i) : "memory");
}
__device__ void RingMmio(const Targets& to, uint64_t i) {
  asm volatile("st.mmio.relaxed.sys.global.b64 [%0], %1;" ::"l"(to.doorbell), "l"(i) : "memory");
}
__device__ void Ring(const Targets& to, uint64_t i) {
  asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(to.doorbell), "l"(i) : "memory");
}

// Fences.
struct NoFence {
  __device__ static void Do() {}
};
struct ReleaseCta {
  __device__ static void Do() { asm volatile("fence.release.cta;" ::: "memory"); }
};
struct ReleaseGpu {
  __device__ static void Do() { asm volatile("fence.release.gpu;" ::: "memory"); }
};
struct AcqRelGpu {
  __device__ static void Do() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
};
struct ScGpu {
  __device__ static void Do() { asm volatile("fence.sc.gpu;" ::: "memory"); }
};
struct ReleaseSys {
  __device__ static void Do() { asm volatile("fence.release.sys;" ::: "memory"); }
};
struct AcquireGpu {
  __device__ static void Do() { asm volatile("fence.acquire.gpu;" ::: "memory"); }
};
struct AcquireSys {
  __device__ static void Do() { asm volatile("fence.acquire.sys;" ::: "memory"); }
};
struct AcqRelSys {
  __device__ static void Do() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
};
struct ScSys {
  __device__ static void Do() { asm volatile("fence.sc.sys;" ::: "memory"); }
};

/// Times a fence behind the stores in flight when it starts: none, a WQE, a doorbell, or both.
template <class Fence, bool kWqe, bool kDoorbell>
__global__ void Isolated(Targets to, uint64_t* cycles) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kRounds / 10; ++i) {
    if constexpr (kWqe) StoreWqe(to, i);
    if constexpr (kDoorbell) RingMmio(to, i);
    const uint64_t start = clock64();
    Fence::Do();
    sum += clock64() - start;
    asm volatile("fence.sc.sys;" ::: "memory");  // the next round starts with no store in flight
  }
  *cycles = sum * 10;
}

// Recipes: the stores of a post in their order.
struct DoorbellOnly {
  __device__ static void Do(const Targets& to, uint32_t i) { RingMmio(to, i); }
};
struct WqeOnly {
  __device__ static void Do(const Targets& to, uint32_t i) { StoreWqe(to, i); }
};
struct Unordered {
  __device__ static void Do(const Targets& to, uint32_t i) {
    StoreWqe(to, i);
    RingMmio(to, i);
  }
};
template <class Fence>
struct WithoutRecord {
  __device__ static void Do(const Targets& to, uint32_t i) {
    StoreWqe(to, i);
    Fence::Do();
    RingMmio(to, i);
  }
};
struct RelaxedDoorbell {
  __device__ static void Do(const Targets& to, uint32_t i) {
    StoreWqe(to, i);
    ReleaseGpu::Do();
    Ring(to, i);
  }
};
template <class Fence>
struct Strict {
  __device__ static void Do(const Targets& to, uint32_t i) {
    StoreWqe(to, i);
    Fence::Do();
    StoreRecord(to, i);
    Fence::Do();
    RingMmio(to, i);
  }
};
struct EarlyDoorbell {  // the doorbell twice
  __device__ static void Do(const Targets& to, uint32_t i) {
    StoreWqe(to, i);
    ReleaseGpu::Do();
    RingMmio(to, i);
    StoreRecord(to, i);
    ReleaseGpu::Do();
    RingMmio(to, i);
  }
};
struct Lazy {  // unsafe: the doorbell may be seen before the record
  __device__ static void Do(const Targets& to, uint32_t i) {
    StoreWqe(to, i);
    ReleaseGpu::Do();
    StoreRecord(to, i);
    RingMmio(to, i);
  }
};
struct ReleaseStoreGpu {
  __device__ static void Do(const Targets& to, uint32_t i) {
    StoreWqe(to, i);
    asm volatile("st.release.gpu.global.b64 [%0], %1;" ::"l"(to.doorbell), "l"(uint64_t{i}) : "memory");
  }
};
struct ReleaseStoreSys {
  __device__ static void Do(const Targets& to, uint32_t i) {
    StoreWqe(to, i);
    asm volatile("st.release.sys.global.b64 [%0], %1;" ::"l"(to.doorbell), "l"(uint64_t{i}) : "memory");
  }
};
struct ReadBack {  // assumes that data that was read back is in the L2 cache, where a NIC reads
  __device__ static void Do(const Targets& to, uint32_t i) {
    StoreWqe(to, i);
    uint8_t* const slot = Slot(to, i);
    uint64_t read = 0;
    for (int segment = 0; segment < 3; ++segment) {
      uint64_t word;
      asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(word) : "l"(slot + 16 * segment) : "memory");
      read |= word;
    }
    RingMmio(to, i + (read & to.zero));
  }
};
struct BulkCopy {  // assumes that a finished bulk copy is in the L2 cache
  __device__ static void Do(const Targets& to, uint32_t i) {
    __shared__ alignas(128) uint64_t wqe[8];
    for (int word = 0; word < 8; ++word) wqe[word] = i;
    const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(wqe));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 64;" ::"l"(Slot(to, i)), "r"(from)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    RingMmio(to, i);
  }
};
template <uint32_t kWqes>
struct BatchWithoutRecord {
  __device__ static void Do(const Targets& to, uint32_t i) {
    StoreWqe(to, i);
    if (i % kWqes != kWqes - 1) return;
    ReleaseGpu::Do();
    RingMmio(to, i);
  }
};
struct AtomicAdd {
  __device__ static void Do(const Targets& to, uint32_t) {
    uint32_t before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(to.record) : "memory");
    if (before == ~0u) RingMmio(to, before);  // waits for the result
  }
};
struct CompareSwap {
  __device__ static void Do(const Targets& to, uint32_t i) {
    uint32_t before;
    asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "l"(to.record), "r"(i), "r"(i + 1)
                 : "memory");
    if (before == ~0u) RingMmio(to, before);
  }
};
struct Load {
  __device__ static void Do(const Targets& to, uint32_t) {
    uint32_t word;
    asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(word) : "l"(to.record) : "memory");
    if (word == ~0u) RingMmio(to, word);
  }
};

template <class Recipe>
__global__ void Steady(Targets to, uint64_t* cycles) {
  const uint64_t start = clock64();
  for (uint32_t i = 0; i < kRounds; ++i) Recipe::Do(to, i);
  *cycles = clock64() - start;
}

struct Stage {
  Stage() {
    Check(cudaMalloc(&ring, size_t{kDepth} * kWqeBytes + kSpare), "allocate a ring");
    Check(cudaMemset(ring, 0, size_t{kDepth} * kWqeBytes + kSpare), "clear a ring");
    Check(cudaHostAlloc(&host, kSpare, cudaHostAllocMapped), "allocate host memory");
    std::memset(host, 0, kSpare);
    Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
    Check(cudaDeviceSynchronize(), "clear a ring");
  }

  /// Returns the cycles of a round: the median over launches with different addresses.
  template <class Kernel>
  double Time(Kernel* kernel, bool host_doorbell) {
    std::vector<double> cycles;
    for (int launch = 0; launch < kLaunches; ++launch) {
      uint8_t* const words = ring + size_t{kDepth} * kWqeBytes + launch * 1024;
      const Targets to{.ring = ring + launch * 1024,
                       .record = reinterpret_cast<uint32_t*>(words + kSpare / 2),
                       .doorbell = host_doorbell ? host + 16 + launch * 128
                                                 : reinterpret_cast<uint64_t*>(words + kSpare / 2 + 256),
                       .zero = 0};
      kernel<<<1, 1, 0, stream>>>(to, host);
      Check(cudaStreamSynchronize(stream), "run a recipe");
      cycles.push_back(static_cast<double>(*host) / kRounds);
    }
    return Median(cycles);
  }

  static constexpr size_t kSpare = 65536;
  uint8_t* ring = nullptr;
  uint64_t* host = nullptr;
  cudaStream_t stream = nullptr;
};

template <class Fence>
void PrintFence(Stage& stage, const char* name) {
  std::printf("%-34s %9.0f %9.0f %9.0f %9.0f\n", name, stage.Time(Isolated<Fence, false, false>, true),
              stage.Time(Isolated<Fence, true, false>, true), stage.Time(Isolated<Fence, false, true>, true),
              stage.Time(Isolated<Fence, true, true>, true));
}

template <class Recipe>
void PrintRecipe(Stage& stage, const char* name) {
  std::printf("%-58s %9.0f %9.0f\n", name, stage.Time(Steady<Recipe>, true),
              stage.Time(Steady<Recipe>, false));
}

void PrintAll(Stage& stage) {
  std::printf("\n%-34s %9s %9s %9s %9s\n", "cycles of a fence, behind", "nothing", "a WQE", "doorbell",
              "both");
  PrintFence<NoFence>(stage, "none (the clock itself)");
  PrintFence<ReleaseCta>(stage, "fence.release.cta");
  PrintFence<ReleaseGpu>(stage, "fence.release.gpu");
  PrintFence<AcqRelGpu>(stage, "fence.acq_rel.gpu");
  PrintFence<ScGpu>(stage, "fence.sc.gpu");
  PrintFence<AcquireGpu>(stage, "fence.acquire.gpu");
  PrintFence<ReleaseSys>(stage, "fence.release.sys");
  PrintFence<AcquireSys>(stage, "fence.acquire.sys");
  PrintFence<AcqRelSys>(stage, "fence.acq_rel.sys");
  PrintFence<ScSys>(stage, "fence.sc.sys");

  std::printf("\n%-58s %9s %9s\n", "cycles of a post in steady state, doorbell in", "host", "GPU");
  PrintRecipe<DoorbellOnly>(stage, "doorbell");
  PrintRecipe<WqeOnly>(stage, "WQE");
  PrintRecipe<Unordered>(stage, "WQE, doorbell (unsafe)");
  PrintRecipe<WithoutRecord<ReleaseGpu>>(stage, "WQE, release.gpu, doorbell");
  PrintRecipe<WithoutRecord<AcqRelGpu>>(stage, "WQE, acq_rel.gpu, doorbell");
  PrintRecipe<WithoutRecord<ReleaseSys>>(stage, "WQE, release.sys, doorbell");
  PrintRecipe<RelaxedDoorbell>(stage, "WQE, release.gpu, doorbell by st.relaxed.sys");
  PrintRecipe<ReleaseStoreGpu>(stage, "WQE, doorbell by st.release.gpu");
  PrintRecipe<ReleaseStoreSys>(stage, "WQE, doorbell by st.release.sys");
  PrintRecipe<Strict<ReleaseGpu>>(stage, "WQE, release.gpu, record, release.gpu, doorbell");
  PrintRecipe<Strict<ReleaseSys>>(stage, "WQE, release.sys, record, release.sys, doorbell");
  PrintRecipe<EarlyDoorbell>(stage, "WQE, release, doorbell, record, release, doorbell");
  PrintRecipe<Lazy>(stage, "WQE, release, record, doorbell (unsafe)");
  PrintRecipe<ReadBack>(stage, "WQE read back, doorbell");
  PrintRecipe<BulkCopy>(stage, "WQE by bulk copy, doorbell");
  PrintRecipe<BatchWithoutRecord<4>>(stage, "WQE; release.gpu and doorbell for every 4");
  PrintRecipe<BatchWithoutRecord<16>>(stage, "WQE; release.gpu and doorbell for every 16");
  PrintRecipe<BatchWithoutRecord<64>>(stage, "WQE; release.gpu and doorbell for every 64");
  PrintRecipe<Load>(stage, "relaxed load");
  PrintRecipe<AtomicAdd>(stage, "atomic add, waited for");
  PrintRecipe<CompareSwap>(stage, "compare-swap, waited for");
}

}  // namespace
}  // namespace warpverbs::bench

int main(int argc, char** argv) {
  using namespace warpverbs::bench;
  if (argc > 1) {
    const bool help = std::string(argv[1]) == "--help";
    std::fprintf(help ? stdout : stderr, "%s",
                 help ? "Usage: device_fence_benchmark\n\nMeasures fences and stores on the first GPU; see "
                        "bench/README.md.\n"
                      : "device_fence_benchmark takes no options but --help.\n");
    return help ? 0 : 2;
  }
  std::printf("%s; ring and record in GPU memory, one thread, no NIC\n", GpuText(0).c_str());
  Stage stage;
  PrintAll(stage);
  return 0;
}
