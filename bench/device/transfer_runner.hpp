#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "transfer_pair.hpp"
#include "warpverbs/arch/cuda.hpp"
#include "warpverbs/host/queue_error.hpp"

namespace warpverbs::bench {

using Kernel = void (*)(Stage*);

static __global__ void PrepareKernel(Stage* stage) {
  Prepare(stage->job, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

static __global__ void VerifyKernel(Stage* stage) {
  Verify<arch::Cuda>(*stage, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}

/// A kernel and the results that it leaves.
struct Case {
  std::string name;
  Kernel kernel;
  uint32_t blocks = 1, threads = 1;
  uint32_t posters = 1;  ///< threads that write to side 1
  uint32_t bytes = 8;    ///< length of a message
  bool answers = false;  ///< true: side 1 writes as much to side 0
  bool signals = false;  ///< true: side 1's signal counts the messages
};

/// Runs cases one after another and checks every word that they wrote. Only one kernel runs at a time,
/// because loading a kernel may have to wait for running ones.
class Runner {
 public:
  /// @param pair  must outlive the runner
  Runner(const host::Gpu& gpu, const Pair& pair) : pair_(pair), stage_(gpu, sizeof(Stage)) {
    Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
    Check(cudaEventCreateWithFlags(&done_, cudaEventBlockingSync | cudaEventDisableTiming), "make an event");
  }
  ~Runner() {
    cudaEventDestroy(done_);
    cudaStreamDestroy(stream_);
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Runs a case in which each posting thread sends `count` messages.
  ///
  /// @param spans  number of time spans that the kernel leaves
  /// @errors  std::runtime_error: a failed post or wait, or wrong words
  std::vector<Span> Run(const Case& which, uint32_t count, uint32_t spans) {
    const Job job = JobOf(which, count);
    stage_.Fill(0, sizeof(Stage), std::byte{0});
    stage_.CopyIn(offsetof(Stage, job), std::as_bytes(std::span(&job, 1)));
    Launch(PrepareKernel, kAllBlocks, kAllThreads, which);
    Launch(which.kernel, which.blocks, which.threads, which);
    const Report ran = Read<Report>(offsetof(Stage, report), 1)[0];
    if (ran.abort != 0) throw std::runtime_error(which.name + ": " + WhyFailed(ran.status));
    Launch(VerifyKernel, kAllBlocks, kAllThreads, which);
    const Report verified = Read<Report>(offsetof(Stage, report), 1)[0];
    if (verified.wrong != 0) {
      throw std::runtime_error(which.name + ": " + std::to_string(verified.wrong) +
                               " of the written words are wrong.");
    }
    return Read<Span>(offsetof(Stage, spans), spans);
  }

 private:
  static constexpr uint32_t kAllBlocks = 256, kAllThreads = 256;

  Job JobOf(const Case& which, uint32_t count) {
    const uint64_t messages = uint64_t{count} * which.posters;
    const uint64_t words = std::min(messages * which.bytes, kDataBytes) / 8;
    Job job{.sides = {pair_.a.SideTo(pair_.b), pair_.b.SideTo(pair_.a)},
            .count = count,
            .bytes = which.bytes,
            .seed = ++seed_};
    job.sides[0].expected_words = which.answers ? words : 0;
    job.sides[1].expected_words = words;
    job.sides[1].expected_signal = which.signals ? messages : 0;
    return job;
  }

  void Launch(Kernel kernel, uint32_t blocks, uint32_t threads, const Case& which) {
    kernel<<<blocks, threads, 0, stream_>>>(reinterpret_cast<Stage*>(stage_.data()));
    Check(cudaGetLastError(), ("launch " + which.name).c_str());
    Check(cudaEventRecord(done_, stream_), ("run " + which.name).c_str());
    Check(cudaEventSynchronize(done_), ("run " + which.name).c_str());
  }

  template <class T>
  std::vector<T> Read(size_t offset, size_t count) const {
    std::vector<T> values(count);
    stage_.CopyOut(offset, std::as_writable_bytes(std::span(values)));
    return values;
  }

  /// Describes a thread's failure and the errors that the endpoints report.
  std::string WhyFailed(const device::Status& status) const {
    std::string why = host::Describe(status) + ".";
    for (const HostSide* side : {&pair_.a, &pair_.b}) {
      if (const auto error = side->endpoint.LastError()) why += " " + error->Describe();
    }
    return why;
  }

  const Pair& pair_;
  host::GpuMemory stage_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  uint64_t seed_ = 0;
};

}  // namespace warpverbs::bench
