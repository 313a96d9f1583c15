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

// What a kernel leaves in its job's memory is read once it has ended, so releases reach no further than
// queues and messages need.

template <class A, class Verb>
__global__ void StreamAloneKernel(StreamJob job) {
  LoneFlow<A, Verb> flow(job, blockIdx.x);
  RunFlows<A>(&flow, 1, job.patience_ns, *job.report);
}

template <class A, class Verb, class Sharing, class Cooperation>
__global__ void StreamTogetherKernel(StreamJob job) {
  const Member self{blockIdx.x / job.posters, blockIdx.x % job.posters, threadIdx.x, blockDim.x};
  if constexpr (std::is_same_v<Cooperation, device::Thread>) {
    StreamTogether<A, Verb, Sharing>(job, self, device::Thread{});
  } else {
    StreamTogether<A, Verb, Sharing>(job, self, Cooperation(0xffffffff));
  }
}

template <class A>
__global__ void ReceiveKernel(ReceiveJob job) {
  ReceivingFlow<A> flow(job, blockIdx.x);
  RunFlows<A>(&flow, 1, job.patience_ns, *job.report);
}

template <class A>
__global__ void FillKernel(ReceiveJob job) {
  ReceivingFlow<A>(job, blockIdx.x).Fill();
}

template <class A, class Verb>
__global__ void PostToCompletionKernel(LatencyJob job) {
  PostToCompletion<A, Verb>(job);
}

template <class A, class Mark>
__global__ void PingPongKernel(LatencyJob job) {
  PingPong<A, Mark>(job);
}

/// The kernel that posts as it is asked for.
template <class A, class V>
void (*StreamKernelFor(const Posting& posting))(StreamJob) {
  using namespace device;
  if (posting.alone()) return StreamAloneKernel<A, V>;
  if (posting.scope == CallScope::kThread) return StreamTogetherKernel<A, V, Shared, Thread>;
  if (posting.scope == CallScope::kBlock) return StreamTogetherKernel<A, V, Shared, Block>;
  return posting.shared ? StreamTogetherKernel<A, V, Shared, Warp>
                        : StreamTogetherKernel<A, V, Exclusive, Warp>;
}

template <class A>
void (*PingPongKernelFor(Verb verb))(LatencyJob) {
  return verb == Verb::kSend ? PingPongKernel<A, SentMark<A>> : PingPongKernel<A, WrittenMark<A>>;
}

class Kernels final : public Initiator {
 public:
  explicit Kernels(const host::Gpu& gpu) : gpu_(gpu) {
    Check(cudaSetDevice(gpu.ordinal()), "use");
    for (Lane* const lane : {&sending_, &receiving_}) {
      Check(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking), "make a stream on");
      Check(cudaEventCreateWithFlags(&lane->done, cudaEventBlockingSync | cudaEventDisableTiming),
            "make an event on");
    }
  }

  const char* name() const override { return "gpu"; }
  const host::Gpu* gpu() const override { return &gpu_; }
  std::unique_ptr<host::Buffer> Stage(size_t bytes) const override {
    return host::PinnedMemoryKind(gpu_).Allocate(bytes);
  }

  std::optional<KernelFacts> KernelFor(Verb verb, bool one_at_a_time, const Posting& posting) const override {
    int khz = 0;
    Check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, gpu_.ordinal()), "ask for the SM clock of");
    cudaFuncAttributes attributes{};
    const auto look_at = [&](auto* kernel) {
      Check(cudaFuncGetAttributes(&attributes, kernel), "load a kernel on");
    };
    ByScope([&]<class A>(A) {
      WithVerb(verb, [&]<class V>(V) {
        if (!one_at_a_time) return look_at(StreamKernelFor<A, V>(posting));
        if (verb == Verb::kWrite || verb == Verb::kSend) return look_at(PingPongKernelFor<A>(verb));
        look_at(PostToCompletionKernel<A, V>);
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
        StreamKernelFor<A, V>(posting)<<<blocks, posting.members(), 0, sending_.stream>>>(job);
      });
    });
    Finish(sending_);
  }
  void Receive(const ReceiveJob& job) override {
    Check(cudaSetDevice(gpu_.ordinal()), "use");  // of this thread, which may be another one
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
  /// Loads the kernels that send: to load one while another receives might wait for the end of that one.
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

  /// Calls `use(arch)` with the arch whose releases reach far enough.
  template <class Use>
  void ByScope(const Use& use) const {
    if (scope_ == arch::Scope::kGpu) return use(arch::Cuda{});
    use(arch::CudaSystem{});
  }

  void Check(cudaError_t error, const char* step) const {
    if (error == cudaSuccess) return;
    throw host::Error(step, gpu_.name(), cudaGetErrorString(error),
                      "Look into the kernel log (dmesg) for NVRM");
  }

  /// A stream, and an event by which the processor waits for it.
  struct Lane {
    ~Lane() {
      if (done != nullptr) cudaEventDestroy(done);
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;
  };

  /// Sleeps until the kernel has ended; each has its deadline.
  void Finish(const Lane& lane) const {
    Check(cudaGetLastError(), "launch a kernel on");
    Check(cudaEventRecord(lane.done, lane.stream), "run a kernel on");
    Check(cudaEventSynchronize(lane.done), "run a kernel on");
  }

  host::Gpu gpu_;
  arch::Scope scope_ = arch::Scope::kSystem;
  Lane sending_, receiving_;  // a side may do both at a time
};

}  // namespace

std::string WhyNoKernels() { return ""; }

std::unique_ptr<Initiator> GpuInitiator(const host::Gpu& gpu) { return std::make_unique<Kernels>(gpu); }

}  // namespace warpverbs::perf
