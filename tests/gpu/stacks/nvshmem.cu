// Two processing elements of NVSHMEM exchange messages by its device calls, and check each word.
//
// Usage: nvshmem RANK ID_FILE MESSAGES [fetch]
//
// The ranks are 0 and 1; rank 0 writes NVSHMEM's unique ID to ID_FILE, which must not exist. With `fetch`
// there are atomics that return a value, which the transport IBRC has only with GDRCopy. Exit status: 0 if
// every word was right.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "messages.hpp"
#include "nvshmem.hpp"

namespace {

using stacks::Check;
using stacks::Compare;
using stacks::Fill;
using stacks::kWords;

/// Puts messages, waits for all, and sends a signal; the peer's signal says that its messages are here.
__global__ void Put(uint64_t* in, const uint64_t* out, uint64_t* signal, int messages, int peer) {
  for (int i = threadIdx.x; i < messages; i += blockDim.x) {
    nvshmem_putmem_nbi(in + kWords * i, out + kWords * i, kWords * 8, peer);
  }
  nvshmem_quiet();
  __syncthreads();
  if (threadIdx.x != 0) return;
  nvshmemx_signal_op(signal, 1, NVSHMEM_SIGNAL_SET, peer);
  nvshmem_quiet();
  nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, 1);
}

/// Puts each message with a signal that counts.
__global__ void PutSignals(uint64_t* in, const uint64_t* out, uint64_t* signal, int messages, int peer) {
  for (int i = threadIdx.x; i < messages; i += blockDim.x) {
    nvshmem_putmem_signal_nbi(in + kWords * i, out + kWords * i, kWords * 8, signal, 1, NVSHMEM_SIGNAL_ADD,
                              peer);
  }
  nvshmem_quiet();
  __syncthreads();
  if (threadIdx.x == 0) nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, messages);
}

__global__ void Get(uint64_t* in, const uint64_t* out, int messages, int peer) {
  for (int i = threadIdx.x; i < messages; i += blockDim.x) {
    nvshmem_getmem_nbi(in + kWords * i, out + kWords * i, kWords * 8, peer);
  }
  nvshmem_quiet();
}

__global__ void Add(uint64_t* counter, int times) {
  for (int i = threadIdx.x; i < times; i += blockDim.x) nvshmem_uint64_atomic_add(counter, 1, 0);
  nvshmem_quiet();
}

/// Adds, and sums up what was there before.
__global__ void FetchAdd(uint64_t* counter, int times, unsigned long long* before) {
  for (int i = threadIdx.x; i < times; i += blockDim.x) {
    atomicAdd(before, static_cast<unsigned long long>(nvshmem_uint64_atomic_fetch_add(counter, 1, 0)));
  }
}

__global__ void Barrier() { nvshmem_barrier_all(); }

class Rank {
 public:
  Rank(int rank, int messages) : rank_(rank), messages_(messages) {
    out_ = static_cast<uint64_t*>(nvshmem_malloc(words() * 8));
    in_ = static_cast<uint64_t*>(nvshmem_calloc(words(), 8));
    signals_ = static_cast<uint64_t*>(nvshmem_calloc(4, 8));
    Check(cudaMallocHost(&wrong_, 8), "cudaMallocHost");
  }
  ~Rank() {
    nvshmem_free(out_);
    nvshmem_free(in_);
    nvshmem_free(signals_);
  }

  /// Runs a kernel that moves some messages, and compares what arrived.
  template <class Launch>
  void Move(const char* what, int count, Launch launch) {
    Fill<<<64, 256>>>(out_, rank_, ++round_, words());
    Begin();
    launch();
    const double seconds = End(what);
    *wrong_ = 0;
    Compare<<<64, 256>>>(in_, peer(), round_, kWords * count, wrong_);
    Check(cudaDeviceSynchronize(), "Compare");
    Report(what, count, seconds, *wrong_ == 0);
  }
  /// Runs a kernel of both ranks that makes rank 0's counter `counter` grow by `times` each.
  template <class Launch>
  void Count(const char* what, int times, int counter, Launch launch) {
    Begin();
    launch();
    const double seconds = End(what);
    nvshmem_barrier_all();
    uint64_t sum = 0;
    Check(cudaMemcpy(&sum, signals_ + counter, 8, cudaMemcpyDeviceToHost), "cudaMemcpy");
    Report(what, times, seconds, rank_ != 0 || sum == uint64_t(2) * times);
  }

  int peer() const { return 1 - rank_; }
  size_t words() const { return kWords * messages_; }
  uint64_t* out() { return out_; }
  uint64_t* in() { return in_; }
  uint64_t* signal(int i) { return signals_ + i; }
  bool all_right() const { return all_right_; }
  void Begin() {
    Check(cudaDeviceSynchronize(), "Fill");
    nvshmem_barrier_all();
    start_ = std::chrono::steady_clock::now();
  }
  double End(const char* what) {
    Check(cudaDeviceSynchronize(), what);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  void Report(const char* what, int count, double seconds, bool right) {
    std::printf("rank %d: %7d of %-10s %10.3f us each, %s\n", rank_, count, what, seconds * 1e6 / count,
                right ? "right" : "WRONG");
    std::fflush(stdout);
    all_right_ &= right;
    nvshmem_barrier_all();
  }

 private:
  const int rank_, messages_;
  int round_ = 0;
  bool all_right_ = true;
  uint64_t *out_, *in_, *signals_;
  unsigned long long* wrong_ = nullptr;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "Usage: nvshmem RANK ID_FILE MESSAGES [fetch]\n");
    return 2;
  }
  const int rank = std::atoi(argv[1]), messages = std::atoi(argv[3]);
  if (!stacks::InitNvshmem(rank, argv[2])) return 1;
  bool all_right = false;
  {
    Rank own(rank, messages);
    const int tenth = messages / 10, few = messages / 100;
    own.Move("put", messages,
             [&] { Put<<<1, 256>>>(own.in(), own.out(), own.signal(0), messages, own.peer()); });
    own.Move("put_signal", tenth,
             [&] { PutSignals<<<1, 256>>>(own.in(), own.out(), own.signal(1), tenth, own.peer()); });
    own.Move("get", few, [&] { Get<<<1, 256>>>(own.in(), own.out(), few, own.peer()); });
    own.Count("add", few, 2, [&] { Add<<<1, 256>>>(own.signal(2), few); });
    if (argc > 4 && argv[4] == std::string_view("fetch")) {
      unsigned long long* before = nullptr;
      Check(cudaMallocHost(&before, 8), "cudaMallocHost");
      *before = 0;
      own.Count("fetch_add", few, 3, [&] { FetchAdd<<<1, 256>>>(own.signal(3), few, before); });
    }
    own.Begin();
    for (int i = 0; i < 10; ++i) Barrier<<<1, 1>>>();
    own.Report("barrier", 10, own.End("barrier"), true);
    all_right = own.all_right();
  }
  nvshmem_finalize();
  if (all_right) std::printf("rank %d: all is right\n", rank);
  return all_right ? 0 : 1;
}
