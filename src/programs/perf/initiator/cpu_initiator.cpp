#include <functional>
#include <vector>

#include "perf/device/latency.hpp"
#include "perf/device/receive.hpp"
#include "perf/device/stream.hpp"
#include "perf/initiator/initiator.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::perf {
namespace {

using arch::Cpu;

template <class Flow, class Job>
std::vector<Flow> FlowsOf(const Job& job) {
  std::vector<Flow> flows;
  flows.reserve(job.flow_count);
  for (uint32_t i = 0; i < job.flow_count; ++i) flows.emplace_back(job, i);
  return flows;
}

/// Runs one block per poster of each queue, as on a GPU.
template <class Verb>
void StreamByGroups(const StreamJob& job, const Posting& posting) {
  using namespace device;
  const uint32_t threads = posting.threads_per_call();
  const auto thread_at = [&](uint32_t block, uint32_t thread) {
    return GroupThread{block / posting.posters, block % posting.posters, thread, threads};
  };
  const Warp warp(threads >= 32 ? 0xffffffff : 1);
  const auto run = [&](uint32_t block, uint32_t thread) {
    const GroupThread self = thread_at(block, thread);
    if (posting.scope == CallScope::kThread) {
      StreamByGroup<Cpu, Verb, Shared>(job, self, Thread{});
    } else if (posting.scope == CallScope::kBlock) {
      StreamByGroup<Cpu, Verb, Shared>(job, self, Block(0xffffffff));
    } else if (posting.shared) {
      StreamByGroup<Cpu, Verb, Shared>(job, self, warp);
    } else {
      StreamByGroup<Cpu, Verb, Exclusive>(job, self, warp);
    }
  };
  arch::cpu::RunGrid(job.flow_count * posting.posters, threads, run);
}

class CpuThreads final : public Initiator {
 public:
  const char* name() const override { return "cpu"; }
  const host::Gpu* gpu() const override { return nullptr; }
  std::unique_ptr<host::Buffer> AllocateShared(size_t bytes) const override {
    return host::HostMemoryKind().Allocate(bytes);
  }

  std::optional<KernelFacts> KernelFor(Verb, bool, const Posting&) const override { return std::nullopt; }

  void ReleaseTo(arch::Scope) override {}  // a CPU releases to the whole system

  void Stream(const StreamJob& job, Verb verb, const Posting& posting) override {
    WithVerb(verb, [&]<class V>(V) {
      if (!posting.single_thread()) return StreamByGroups<V>(job, posting);
      auto flows = FlowsOf<SingleThreadFlow<Cpu, V>>(job);
      RunFlows<Cpu>(flows.data(), job.flow_count, job.timeout_ns, *job.result);
    });
  }
  void Receive(const ReceiveJob& job) override {
    auto flows = FlowsOf<ReceivingFlow<Cpu>>(job);
    RunFlows<Cpu>(flows.data(), job.flow_count, job.timeout_ns, *job.result);
  }
  void Fill(const ReceiveJob& job) override {
    for (auto& flow : FlowsOf<ReceivingFlow<Cpu>>(job)) flow.Fill();
  }
  void PostToCompletion(const LatencyJob& job, Verb verb) override {
    WithVerb(verb, [&]<class V>(V) { perf::PostToCompletion<Cpu, V>(job); });
  }
  void PingPong(const LatencyJob& job, Verb verb) override {
    if (verb == Verb::kSend) return perf::PingPong<Cpu, SendTransfer<Cpu>>(job);
    perf::PingPong<Cpu, WriteTransfer<Cpu>>(job);
  }
};

}  // namespace

std::unique_ptr<Initiator> MakeCpuInitiator() { return std::make_unique<CpuThreads>(); }

#if !WARPVERBS_PERF_CUDA  // cuda_initiator.cu defines them otherwise
void RequireKernels() {
  throw host::Error("post from", "a GPU", "this warpverbs-perf was built without CUDA",
                    "Build it with -D WARPVERBS_CUDA=ON, or use --initiator cpu");
}

std::unique_ptr<Initiator> MakeGpuInitiator(const host::Gpu&) {
  RequireKernels();
  return nullptr;
}
#endif

}  // namespace warpverbs::perf
