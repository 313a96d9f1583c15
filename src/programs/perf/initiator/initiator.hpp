#pragma once

#include <memory>
#include <optional>
#include <string>

#include "perf/device/work.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::perf {

/// The group of threads that calls a queue together.
enum class CallScope : uint8_t { kThread, kWarp, kBlock };

/// How messages are posted to each queue.
struct Posting {
  CallScope scope = CallScope::kThread;
  bool shared = false;   ///< other groups may post to the queue, too
  uint32_t posters = 1;  ///< threads, warps or blocks that post to each queue
  uint32_t batch = 1;    ///< messages of a thread per doorbell

  static constexpr uint32_t kWarpLanes = 32, kBlockThreads = 128;

  /// Returns whether a single thread posts to each queue. It then times each message.
  bool single_thread() const { return scope == CallScope::kThread && !shared; }
  /// Returns the number of threads in the group.
  uint32_t threads_per_call() const {
    return scope == CallScope::kThread ? 1 : scope == CallScope::kWarp ? kWarpLanes : kBlockThreads;
  }
  /// Returns the messages that all posters of a queue post by one call each.
  uint32_t messages_per_round() const { return threads_per_call() * posters * batch; }
};

/// The GPU and the kernel that post. Figures compare only between equal ones.
struct KernelFacts {
  std::string gpu{};              ///< "NVIDIA H200"
  uint32_t max_sm_clock_khz = 0;  ///< limit of the driver; load and temperature decide the actual clock
  uint32_t registers = 0;         ///< registers per thread
};

/// Posts and receives by CPU threads or by kernels of a GPU. Both run the code of device/.
///
/// Each call blocks until the job ends, and leaves the outcome in the job's result.
class Initiator {
 public:
  virtual ~Initiator() = default;
  Initiator(const Initiator&) = delete;
  Initiator& operator=(const Initiator&) = delete;

  /// Returns "cpu" or "gpu".
  virtual const char* name() const = 0;
  /// Returns the GPU whose kernels post; nullptr for CPU threads.
  virtual const host::Gpu* gpu() const = 0;
  /// Allocates memory that both the CPU and the posters reach, for jobs and their results.
  virtual std::unique_ptr<host::Buffer> AllocateShared(size_t bytes) const = 0;

  /// Returns the kernel that posts a verb; empty for CPU threads.
  ///
  /// @param one_at_a_time  whether a latency test posts, rather than a stream
  /// @pre    ReleaseTo() was called
  virtual std::optional<KernelFacts> KernelFor(Verb verb, bool one_at_a_time,
                                               const Posting& posting) const = 0;

  /// Sets the scope of releases. It depends on the location of queues and messages.
  virtual void ReleaseTo(arch::Scope scope) = 0;

  virtual void Stream(const StreamJob& job, Verb verb, const Posting& posting) = 0;
  virtual void Receive(const ReceiveJob& job) = 0;
  /// Fills the receive queues.
  virtual void Fill(const ReceiveJob& job) = 0;
  virtual void PostToCompletion(const LatencyJob& job, Verb verb) = 0;
  virtual void PingPong(const LatencyJob& job, Verb verb) = 0;

 protected:
  Initiator() = default;
};

std::unique_ptr<Initiator> MakeCpuInitiator();

/// @errors  Error: the driver fails; as RequireKernels()
std::unique_ptr<Initiator> MakeGpuInitiator(const host::Gpu& gpu);

/// @errors  Error: this program was built without CUDA
void RequireKernels();

}  // namespace warpverbs::perf
