#include <cuda_runtime.h>

#include "perf/device/latency.hpp"
#include "perf/device/receive.hpp"
#include "perf/device/stream.hpp"
#include "perf/initiator/initiator.hpp"
#include "warpverbs/arch/cuda.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::perf {
namespace {

// The host reads the results of a kernel only after it has ended, so the release scope depends only on the
// location of queues and messages.

template <class A, class Verb>
__global__ void StreamByThreadKernel(StreamJob job) {
  SingleThreadFlow<A, Verb> flow(job, blockIdx.x);
  RunFlows<A>(&flow, 1, job.timeout_ns, *job.result);
}

template <class A, class Verb, class Sharing, class Cooperation>
__global__ void StreamByGroupKernel(StreamJob job) {
  const GroupThread self{blockIdx.x / job.posters, blockIdx.x % job.posters, threadIdx.x, blockDim.x};
  if constexpr (std::is_same_v<Cooperation, device::Thread>) {
    StreamByGroup<A, Verb, Sharing>(job, self, device::Thread{});
  } else {
    StreamByGroup<A, Verb, Sharing>(job, self, Cooperation(0xffffffff));
  }
}

template <class A>
__global__ void ReceiveKernel(ReceiveJob job) {
  ReceivingFlow<A> flow(job, blockIdx.x);
  RunFlows<A>(&flow, 1, job.timeout_ns, *job.result);
}

template <class A>
__global__ void FillKernel(ReceiveJob job) {
  ReceivingFlow<A>(job, blockIdx.x).Fill();
}

template <class A, class Verb>
__global__ void PostToCompletionKernel(LatencyJob job) {
  PostToCompletion<A, Verb>(job);
}

template <class A, class Transfer>
__global__ void PingPongKernel(LatencyJob job) {
  PingPong<A, Transfer>(job);
}

/// Returns the kernel for a way to post.
template <class A, class V>
void (*StreamKernelFor(const Posting& posting))(StreamJob) {
  using namespace device;
  if (posting.single_thread()) return StreamByThreadKernel<A, V>;
  if (posting.scope == CallScope::kThread) return StreamByGroupKernel<A, V, Shared, Thread>;
  if (posting.scope == CallScope::kBlock) return StreamByGroupKernel<A, V, Shared, Block>;
  return posting.shared ? StreamByGroupKernel<A, V, Shared, Warp>
                        : StreamByGroupKernel<A, V, Exclusive, Warp>;
}

template <class A>
void (*PingPongKernelFor(Verb verb))(LatencyJob) {
  return verb == Verb::kSend ? PingPongKernel<A, SendTransfer<A>> : PingPongKernel<A, WriteTransfer<A>>;
}

class GpuKernels final : public Initiator {
 public:
  explicit GpuKernels(const host::Gpu& gpu) : gpu_(gpu) {
    Check(cudaSetDevice(gpu.ordinal()), "use");
    for (KernelStream* const launch : {&sending_, &receiving_}) {
      Check(cudaStreamCreateWithFlags(&launch->stream, cudaStreamNonBlocking), "create a stream on");
      Check(cudaEventCreateWithFlags(&launch->done, cudaEventBlockingSync | cudaEventDisableTiming),
            "create an event on");
    }
  }

  const char* name() const override { return "gpu"; }
  const host::Gpu* gpu() const override { return &gpu_; }
  std::unique_ptr<host::Buffer> AllocateShared(size_t bytes) const override {
    return host::PinnedMemoryKind(gpu_).Allocate(bytes);
  }

  std::optional<KernelFacts> KernelFor(Verb verb, bool one_at_a_time, const Posting& posting) const override {
    int khz = 0;
    Check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, gpu_.ordinal()), "read the SM clock of");
    cudaFuncAttributes attributes{};
    const auto inspect = [&](auto* kernel) {
      Check(cudaFuncGetAttributes(&attributes, kernel), "load a kernel on");
    };
    ByScope([&]<class A>(A) {
      WithVerb(verb, [&]<class V>(V) {
        if (!one_at_a_time) return inspect(StreamKernelFor<A, V>(posting));
        if (verb == Verb::kWrite || verb == Verb::kSend) return inspect(PingPongKernelFor<A>(verb));
        inspect(PostToCompletionKernel<A, V>);
      });
    });
    return KernelFacts{.gpu = gpu_.model(),
                       .max_sm_clock_khz = static_cast<uint32_t>(khz),
                       .registers = static_cast<uint32_t>(attributes.numRegs)};
  }

  void ReleaseTo(arch::Scope scope) override { scope_ = scope; }

  void Stream(const StreamJob& job, Verb verb, const Posting& posting) override {
    const uint32_t blocks = job.flow_count * posting.posters;
    ByScope([&]<class A>(A) {
      WithVerb(verb, [&]<class V>(V) {
        StreamKernelFor<A, V>(posting)<<<blocks, posting.threads_per_call(), 0, sending_.stream>>>(job);
      });
    });
    Finish(sending_);
  }
  void Receive(const ReceiveJob& job) override {
    Check(cudaSetDevice(gpu_.ordinal()), "use");  // this may be another thread than the constructor's
    ByScope([&]<class A>(A) { ReceiveKernel<A><<<job.flow_count, 1, 0, receiving_.stream>>>(job); });
    Finish(receiving_);
  }
  void Fill(const ReceiveJob& job) override {
    ByScope([&]<class A>(A) { LoadSenders<A>(); });
    ByScope([&]<class A>(A) { FillKernel<A><<<job.flow_count, 1, 0, receiving_.stream>>>(job); });
    Finish(receiving_);
  }
  void PostToCompletion(const LatencyJob& job, Verb verb) override {
    ByScope([&]<class A>(A) {
      WithVerb(verb, [&]<class V>(V) { PostToCompletionKernel<A, V><<<1, 1, 0, sending_.stream>>>(job); });
    });
    Finish(sending_);
  }
  void PingPong(const LatencyJob& job, Verb verb) override {
    ByScope([&]<class A>(A) { PingPongKernelFor<A>(verb)<<<1, 1, 0, sending_.stream>>>(job); });
    Finish(sending_);
  }

 private:
  /// Loads all kernels that send. Loading one later might wait until a running receive kernel ends.
  template <class A>
  void LoadSenders() const {
    cudaFuncAttributes attributes;
    for (const CallScope scope : {CallScope::kThread, CallScope::kWarp, CallScope::kBlock}) {
      for (const bool shared : {false, true}) {
        const auto kernel = StreamKernelFor<A, SendVerb>({.scope = scope, .shared = shared});
        Check(cudaFuncGetAttributes(&attributes, kernel), "load a kernel on");
      }
    }
  }

  /// Calls `use(arch)` with the arch whose releases have the scope.
  template <class Use>
  void ByScope(const Use& use) const {
    if (scope_ == arch::Scope::kGpu) return use(arch::Cuda{});
    use(arch::CudaSystem{});
  }

  void Check(cudaError_t error, const char* step) const {
    if (error == cudaSuccess) return;
    throw host::Error(step, gpu_.name(), cudaGetErrorString(error),
                      "Look for NVRM in the kernel log (dmesg)");
  }

  /// A stream, and an event to wait for its kernels.
  struct KernelStream {
    ~KernelStream() {
      if (done != nullptr) cudaEventDestroy(done);
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;
  };

  /// Blocks until the kernel has ended. Each kernel has a timeout of its own.
  void Finish(const KernelStream& launch) const {
    Check(cudaGetLastError(), "launch a kernel on");
    Check(cudaEventRecord(launch.done, launch.stream), "run a kernel on");
    Check(cudaEventSynchronize(launch.done), "run a kernel on");
  }

  host::Gpu gpu_;
  arch::Scope scope_ = arch::Scope::kSystem;
  KernelStream sending_, receiving_;  // a side may send and receive at once
};

}  // namespace

void RequireKernels() {}

std::unique_ptr<Initiator> MakeGpuInitiator(const host::Gpu& gpu) { return std::make_unique<GpuKernels>(gpu); }

}  // namespace warpverbs::perf
