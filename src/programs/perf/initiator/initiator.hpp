#pragma once

#include <memory>
#include <optional>
#include <string>

#include "perf/device/work.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::perf {

/// Who makes a call of a queue together.
enum class CallScope : uint8_t { kThread, kWarp, kBlock };

/// Who posts to a queue, and how.
struct Posting {
  CallScope scope = CallScope::kThread;
  bool shared = false;   ///< others may post to the queue too
  uint32_t posters = 1;  ///< threads, warps or blocks of each queue
  uint32_t batch = 1;    ///< messages of a thread by one doorbell

  static constexpr uint32_t kWarpLanes = 32, kBlockThreads = 128;

  /// Whether one thread by itself has the queue, which then keeps time of each message.
  bool alone() const { return scope == CallScope::kThread && !shared; }
  /// Threads that make a call together.
  uint32_t members() const {
    return scope == CallScope::kThread ? 1 : scope == CallScope::kWarp ? kWarpLanes : kBlockThreads;
  }
  /// What all posters of a queue post by a call each.
  uint32_t by_round() const { return members() * posters * batch; }
};

/// The GPU that posts, and the kernel by which it does: figures of GPUs compare by these.
struct KernelFacts {
  std::string gpu{};              ///< "NVIDIA H200"
  uint32_t max_sm_clock_khz = 0;  ///< what the driver names; load and heat decide how much of it there is
  uint32_t registers = 0;         ///< of each thread
};

/// Those who post and receive: threads of the processor, or kernels of a GPU. Both run the code of device/.
///
/// Each call runs to its end and leaves its outcome in the job's report.
class Initiator {
 public:
  virtual ~Initiator() = default;
  Initiator(const Initiator&) = delete;
  Initiator& operator=(const Initiator&) = delete;

  /// "cpu", "gpu"
  virtual const char* name() const = 0;
  /// Whose kernels post; nullptr: threads of the processor.
  virtual const host::Gpu* gpu() const = 0;
  /// Memory that both the processor and the posters reach, for jobs and what they leave.
  virtual std::unique_ptr<host::Buffer> Stage(size_t bytes) const = 0;

  /// By what a verb is posted once ReleaseTo() is called; none: by threads of the processor.
  ///
  /// @param one_at_a_time  as for latencies, else by streams
  virtual std::optional<KernelFacts> KernelFor(Verb verb, bool one_at_a_time,
                                               const Posting& posting) const = 0;

  /// How far releases must reach from now on: by where queues and messages lie.
  virtual void ReleaseTo(arch::Scope scope) = 0;

  virtual void Stream(const StreamJob& job, Verb verb, const Posting& posting) = 0;
  virtual void Receive(const ReceiveJob& job) = 0;
  /// Posts the first receives of each flow.
  virtual void Fill(const ReceiveJob& job) = 0;
  virtual void PostToCompletion(const LatencyJob& job, Verb verb) = 0;
  virtual void PingPong(const LatencyJob& job, Verb verb) = 0;

 protected:
  Initiator() = default;
};

std::unique_ptr<Initiator> CpuInitiator();

/// @errors  Error: this program has no kernels, or the driver fails
std::unique_ptr<Initiator> GpuInitiator(const host::Gpu& gpu);

/// What GpuInitiator() would fail with; empty: this program has kernels.
std::string WhyNoKernels();

}  // namespace warpverbs::perf
