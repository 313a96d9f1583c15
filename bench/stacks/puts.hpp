#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "../../tests/gpu/stacks/ranks.hpp"

// clang-format off
/// Times of the same puts and signals by several libraries.
///
/// A library is a type whose objects kernels take by value, with a type `Poster` for one thread:
///
///     Poster(const Library&)
///     void Put(uint32_t i)                        // writes source word i to the peer's target word i
///     void Quiet()                                // waits until all puts are done
///     void Signal(uint64_t value)                 // sets the peer's signal to the value, one more than the last
///     void PutSignal(uint32_t i, uint64_t value)  // puts a word, then sets the signal
///     bool WaitSignal(uint64_t value)             // waits for one's own signal; false: gave up
///     bool ok()                                   // nothing failed so far
// clang-format on
namespace stacks {

inline constexpr uint32_t kStream = 100'000;  ///< messages of a stream, and words of source and target
inline constexpr uint32_t kSingle = 10'000;   ///< messages that are timed one by one

/// Reads the clock that all multiprocessors of the GPU share.
__device__ inline uint64_t NowNs() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

__host__ __device__ inline uint64_t WordOf(uint32_t round, uint64_t index) {
  return (uint64_t{round} << 32 | index) * 0x9E3779B97F4A7C15ull;
}

/// A kernel's times: of each message, or of the stream as a whole.
struct Times {
  uint64_t ns[kSingle];
  uint64_t failed;  ///< nonzero if a post or a wait failed
};

static __global__ void Prepare(uint64_t* source, uint64_t* target, uint32_t round) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kStream; i += gridDim.x * blockDim.x) {
    source[i] = WordOf(round, i);
    target[i] = 0;
  }
}

static __global__ void CountWrong(const uint64_t* target, uint32_t round, uint32_t count,
                                  unsigned long long* wrong) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kStream; i += gridDim.x * blockDim.x) {
    if (target[i] != (i < count ? WordOf(round, i) : 0)) atomicAdd(wrong, 1ull);
  }
}

/// One thread: a put, and a wait for it.
template <class Library>
__global__ void PutAndQuiet(Library library, int rank, uint64_t, Times* times) {
  typename Library::Poster poster(library);
  for (uint32_t i = 0; rank == 0 && i < kSingle && poster.ok(); ++i) {
    const uint64_t begin = NowNs();
    poster.Put(i);
    poster.Quiet();
    times->ns[i] = NowNs() - begin;
  }
  times->failed = !poster.ok();
}

/// One thread: puts as fast as the library takes them, and a wait for all.
template <class Library>
__global__ void PutStream(Library library, int rank, uint64_t, Times* times) {
  typename Library::Poster poster(library);
  const uint64_t begin = NowNs();
  for (uint32_t i = 0; rank == 0 && i < kStream; ++i) poster.Put(i);
  poster.Quiet();
  times->ns[0] = NowNs() - begin;
  times->failed = !poster.ok();
}

/// One thread of each rank: signals alternate, each in answer to the last. With `kPuts` a word precedes each.
template <class Library, bool kPuts>
__global__ void PingPong(Library library, int rank, uint64_t before, Times* times) {
  typename Library::Poster poster(library);
  const auto send = [&](uint32_t i) {
    if constexpr (kPuts) {
      poster.PutSignal(i, before + i + 1);
    } else {
      poster.Signal(before + i + 1);
    }
  };
  bool seen = true;
  for (uint32_t i = 0; i < kSingle && seen && poster.ok(); ++i) {
    const uint64_t begin = NowNs();
    if (rank == 0) send(i);
    seen = poster.WaitSignal(before + i + 1);
    if (rank == 1 && seen) send(i);
    times->ns[i] = (NowNs() - begin) / 2;
  }
  poster.Quiet();
  times->failed = !seen || !poster.ok();
}

/// Runs the kernels on both ranks, and prints rank 0's times.
///
/// @tparam Side  has `rank()`, `library()`, `source()`, `target()` and `Barrier()`, which waits for the other
/// rank's call
template <class Library, class Side>
class Figures {
 public:
  Figures(Side& side, std::string name) : side_(side), name_(std::move(name)) {
    Check(cudaMallocHost(&times_, sizeof *times_), "cudaMallocHost");
    Check(cudaMallocHost(&wrong_, sizeof *wrong_), "cudaMallocHost");
  }

  /// @return  whether all succeeded and every word was right on this rank
  bool MeasureAll() {
    Measure(
        {.what = "put of 8 bytes, quiet", .kernel = PutAndQuiet<Library>, .count = kSingle, .puts = true});
    Measure({.what = "signal, half a round trip",
             .kernel = PingPong<Library, false>,
             .count = kSingle,
             .answers = true});
    Measure({.what = "8 bytes and a signal, half a round trip",
             .kernel = PingPong<Library, true>,
             .count = kSingle,
             .puts = true,
             .answers = true});
    Measure(
        {.what = "puts of 8 bytes, one quiet", .kernel = PutStream<Library>, .count = kStream, .puts = true});
    return all_right_;
  }

 private:
  struct Case {
    const char* what;
    void (*kernel)(Library, int, uint64_t, Times*);
    uint32_t count;
    bool puts = false;     ///< the messages have words
    bool answers = false;  ///< rank 1 sends as much as rank 0
  };

  void Measure(const Case& which) {
    Prepare<<<64, 256>>>(side_.source(), side_.target(), ++round_);
    Check(cudaDeviceSynchronize(), "Prepare");
    *times_ = {};
    side_.Barrier();
    which.kernel<<<1, 1>>>(side_.library(), side_.rank(), signals_, times_);
    Check(cudaDeviceSynchronize(), which.what);
    if (which.answers) signals_ += which.count;
    side_.Barrier();
    *wrong_ = 0;
    const bool receives = which.puts && (which.answers || side_.rank() == 1);
    CountWrong<<<64, 256>>>(side_.target(), round_, receives ? which.count : 0, wrong_);
    Check(cudaDeviceSynchronize(), "CountWrong");
    if (times_->failed != 0 || *wrong_ != 0) {
      all_right_ = false;
      std::printf("rank %d: %s: %s: %s, %llu words are wrong\n", side_.rank(), name_.c_str(), which.what,
                  times_->failed != 0 ? "a post or wait failed" : "no post failed", *wrong_);
    } else if (side_.rank() == 0) {
      Print(which.what, which.count);
    }
    std::fflush(stdout);
    side_.Barrier();
  }

  void Print(const char* what, uint32_t count) {
    if (count == kStream) {
      const double us = static_cast<double>(times_->ns[0]) / 1e3;
      std::printf("rank 0: | %s | %s | %u | | | %.2f | %.4f |\n", name_.c_str(), what, count, us / count,
                  count / us);
      return;
    }
    std::vector<uint64_t> ns(times_->ns, times_->ns + count);
    std::sort(ns.begin(), ns.end());
    double sum = 0;
    for (const uint64_t one : ns) sum += static_cast<double>(one);
    const double mean_us = sum / count / 1e3;
    std::printf("rank 0: | %s | %s | %u | %.2f | %.2f | %.2f | %.4f |\n", name_.c_str(), what, count,
                static_cast<double>(ns[count / 2]) / 1e3, static_cast<double>(ns[count * 99 / 100]) / 1e3,
                mean_us, 1 / mean_us);
  }

  Side& side_;
  const std::string name_;
  Times* times_ = nullptr;
  unsigned long long* wrong_ = nullptr;
  uint32_t round_ = 0;
  uint64_t signals_ = 0;
  bool all_right_ = true;
};

/// Measures, prints the result, and returns the exit status.
template <class Library, class Side>
int Run(Side& side, const std::string& name) {
  const bool right = Figures<Library, Side>(side, name).MeasureAll();
  if (right) std::printf("rank %d: all is right\n", side.rank());
  return right ? 0 : 1;
}

}  // namespace stacks
