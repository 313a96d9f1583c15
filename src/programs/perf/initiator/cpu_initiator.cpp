#include <functional>
#include <vector>

#include "perf/device/latency.hpp"
#include "perf/device/receive.hpp"
#include "perf/device/stream.hpp"
#include "perf/initiator/initiator.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/host/buffer.hpp"

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

/// As many blocks as there are posters of all queues, as on a GPU.
template <class Verb>
void StreamByTeams(const StreamJob& job, const Posting& posting) {
  using namespace device;
  const uint32_t members = posting.members();
  const auto member = [&](uint32_t block, uint32_t thread) {
    return Member{block / posting.posters, block % posting.posters, thread, members};
  };
  const Warp warp(members >= 32 ? 0xffffffff : 1);
  const auto run = [&](uint32_t block, uint32_t thread) {
    const Member self = member(block, thread);
    if (posting.scope == CallScope::kThread) {
      StreamTogether<Cpu, Verb, Shared>(job, self, Thread{});
    } else if (posting.scope == CallScope::kBlock) {
      StreamTogether<Cpu, Verb, Shared>(job, self, Block(0xffffffff));
    } else if (posting.shared) {
      StreamTogether<Cpu, Verb, Shared>(job, self, warp);
    } else {
      StreamTogether<Cpu, Verb, Exclusive>(job, self, warp);
    }
  };
  arch::cpu::RunGrid(job.flow_count * posting.posters, members, run);
}

class Threads final : public Initiator {
 public:
  const char* name() const override { return "cpu"; }
  const host::Gpu* gpu() const override { return nullptr; }
  std::unique_ptr<host::Buffer> Stage(size_t bytes) const override {
    return host::HostMemoryKind().Allocate(bytes);
  }

  std::optional<KernelFacts> KernelFor(Verb, bool, const Posting&) const override { return std::nullopt; }

  void ReleaseTo(arch::Scope) override {}  // to all that the processor reaches

  void Stream(const StreamJob& job, Verb verb, const Posting& posting) override {
    WithVerb(verb, [&]<class V>(V) {
      if (!posting.alone()) return StreamByTeams<V>(job, posting);
      auto flows = FlowsOf<LoneFlow<Cpu, V>>(job);
      RunFlows<Cpu>(flows.data(), job.flow_count, job.patience_ns, *job.report);
    });
  }
  void Receive(const ReceiveJob& job) override {
    auto flows = FlowsOf<ReceivingFlow<Cpu>>(job);
    RunFlows<Cpu>(flows.data(), job.flow_count, job.patience_ns, *job.report);
  }
  void Fill(const ReceiveJob& job) override {
    for (auto& flow : FlowsOf<ReceivingFlow<Cpu>>(job)) flow.Fill();
  }
  void PostToCompletion(const LatencyJob& job, Verb verb) override {
    WithVerb(verb, [&]<class V>(V) { perf::PostToCompletion<Cpu, V>(job); });
  }
  void PingPong(const LatencyJob& job, Verb verb) override {
    if (verb == Verb::kSend) return perf::PingPong<Cpu, SentMark<Cpu>>(job);
    perf::PingPong<Cpu, WrittenMark<Cpu>>(job);
  }
};

}  // namespace

std::unique_ptr<Initiator> CpuInitiator() { return std::make_unique<Threads>(); }

}  // namespace warpverbs::perf
