// Two ranks exchange messages by NCCL's device API, whose proxy posts for the kernels, and check each word.
//
// Usage: gin RANK ID_FILE MESSAGES
//
// Nothing is put by value: before NCCL 2.29.7 the proxy stores the value at a wrong address of its own.
//
// The ranks are 0 and 1; rank 0 writes NCCL's unique ID to ID_FILE, which must not exist. Exit status: 0 if
// every word was right.
#include <chrono>
#include <cstdint>

#include "gin.hpp"
#include "messages.hpp"

namespace {

using stacks::Check;
using stacks::Compare;
using stacks::Fill;
using stacks::kWords;

// Signals of a device communicator. One that is incremented may not be added to.
constexpr ncclGinSignal_t kPutDone = 0, kPutSignals = 1, kAdded = 2;

/// A kernel's parameters: messages go from the first half of the window to the second half of the peer's.
struct Job {
  ncclDevComm comm;
  ncclWindow_t window;
  size_t in_offset;  // of the window, in bytes
  int messages, peer;
};

/// Puts messages, then signals: the signal comes behind all puts to that peer.
__global__ void Put(Job job) {
  ncclGin gin(job.comm, 0);
  for (int i = threadIdx.x; i < job.messages; i += blockDim.x) {
    const size_t offset = kWords * 8 * i;
    gin.put(ncclTeamWorld(job.comm), job.peer, job.window, job.in_offset + offset, job.window, offset,
            kWords * 8);
  }
  gin.flush(ncclCoopCta());
  __syncthreads();
  if (threadIdx.x == 0) gin.signal(ncclTeamWorld(job.comm), job.peer, ncclGin_SignalInc{kPutDone});
  gin.waitSignal(ncclCoopCta(), kPutDone, 1);
  gin.flush(ncclCoopCta());
}

/// Puts each message with a signal that counts.
__global__ void PutSignals(Job job) {
  ncclGin gin(job.comm, 0);
  for (int i = threadIdx.x; i < job.messages; i += blockDim.x) {
    const size_t offset = kWords * 8 * i;
    gin.put(ncclTeamWorld(job.comm), job.peer, job.window, job.in_offset + offset, job.window, offset,
            kWords * 8, ncclGin_SignalInc{kPutSignals});
  }
  gin.waitSignal(ncclCoopCta(), kPutSignals, job.messages);
  gin.flush(ncclCoopCta());
}

/// Adds to the peer's signal, and waits for the peer's additions.
__global__ void Add(Job job) {
  ncclGin gin(job.comm, 0);
  for (int i = threadIdx.x; i < job.messages; i += blockDim.x) {
    gin.signal(ncclTeamWorld(job.comm), job.peer, ncclGin_SignalAdd{kAdded, 3});
  }
  gin.waitSignal(ncclCoopCta(), kAdded, 3ull * job.messages);
  gin.flush(ncclCoopCta());
}

class Rank {
 public:
  Rank(stacks::GinRank& gin, int messages) : gin_(gin), words_(kWords * messages) {
    Check(cudaMallocHost(&wrong_, 8), "cudaMallocHost");
  }

  /// Runs a kernel that moves some messages to the peer, and compares what the peer sent.
  void Move(const char* what, int messages, void (*kernel)(Job)) {
    Fill<<<64, 256>>>(gin_.memory(), gin_.rank(), ++round_, words_);
    const double seconds = Run(what, messages, kernel);
    *wrong_ = 0;
    Compare<<<64, 256>>>(gin_.memory() + words_, gin_.peer(), round_, kWords * messages, wrong_);
    Check(cudaDeviceSynchronize(), "Compare");
    Report(what, messages, seconds, *wrong_ == 0);
  }
  /// Runs a kernel that compares what arrived by itself.
  void Count(const char* what, int messages, void (*kernel)(Job)) {
    Report(what, messages, Run(what, messages, kernel), true);
  }

  bool all_right() const { return all_right_; }

 private:
  double Run(const char* what, int messages, void (*kernel)(Job)) {
    stacks::GinBarrier<<<1, 32>>>(gin_.device());  // the peer has compared what the last kernel moved
    Check(cudaDeviceSynchronize(), "GinBarrier");
    const auto start = std::chrono::steady_clock::now();
    kernel<<<1, 256>>>({gin_.device(), gin_.window(), words_ * 8, messages, gin_.peer()});
    Check(cudaDeviceSynchronize(), what);
    gin_.CheckProxy();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void Report(const char* what, int count, double seconds, bool right) {
    std::printf("rank %d: %7d of %-10s %10.3f us each, %s\n", gin_.rank(), count, what, seconds * 1e6 / count,
                right ? "right" : "WRONG");
    std::fflush(stdout);
    all_right_ &= right;
  }

  stacks::GinRank& gin_;
  const size_t words_;
  int round_ = 0;
  bool all_right_ = true;
  unsigned long long* wrong_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "Usage: gin RANK ID_FILE MESSAGES\n");
    return 2;
  }
  const int messages = std::atoi(argv[3]);
  bool all_right = false;
  {
    stacks::GinRank gin(std::atoi(argv[1]), argv[2], 2 * kWords * 8 * size_t(messages));
    if (gin.rank() == 0) std::printf("GIN backend %d: 2 is the proxy\n", int(gin.device().ginTypes[0]));
    Rank own(gin, messages);
    own.Move("put", messages, Put);
    own.Move("put_signal", messages / 10, PutSignals);
    own.Count("add", messages / 100, Add);
    all_right = own.all_right();
  }
  if (all_right) std::printf("rank %s: all is right\n", argv[1]);
  return all_right ? 0 : 1;
}
