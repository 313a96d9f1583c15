// Failures: every one is reported to the kernel, and no wait is endless.
#include <atomic>
#include <chrono>
#include <thread>

#include "../e2e/control.hpp"
#include "pair.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace warpverbs::gpu {
namespace {

using device::Exclusive;
using device::SendQueue;
using device::Shared;

class Failures : public Placed {};
WARPVERBS_PLACED(Failures);

struct Job {
  QueueView queue;
  LocalMemory local;
  RemoteMemory remote;
  uint32_t posts = 1;
  uint64_t timeout_ns = kTimeoutNs;
  const uint64_t* abort = nullptr;
  uint64_t* waiting = nullptr;  ///< set between the last post and the wait
};

Job JobOf(const Pair& pair) { return {pair.a.View(), pair.source.Local(0, 8), pair.target.Remote(0)}; }

struct Outcome {
  Status posted, waited;  ///< status of the first post and wait that failed, or of the last ones
  uint64_t ns = 0;        ///< time of posts and wait
};

template <class A, class Sharing>
__global__ void Put(Job job, Outcome* outcome) {
  SendQueue<A, Sharing> queue(job.queue);
  const uint64_t start = A::NowNs();
  const WaitLimit limit{.deadline_ns = start + job.timeout_ns, .abort = job.abort};
  Posted posted{};
  for (uint32_t i = 0; i < job.posts && posted.status.ok(); ++i)
    posted = queue.Post(device::Write(job.remote, job.local), limit);
  outcome->posted = posted.status;
  if (job.waiting != nullptr) arch::CudaSystem::Store(job.waiting, 1);
  if (posted.status.ok()) outcome->waited = queue.Wait(posted.ticket, limit);
  outcome->ns = A::NowNs() - start;
}

template <class Sharing = Exclusive>
Outcome RunPut(const Pair& pair, const Job& job) {
  const Mapped<Outcome> outcome(pair.gpu_a);
  WithArch(pair.scope(),
           [&](auto arch) { RunKernel(pair.gpu_a, 1, 1, Put<decltype(arch), Sharing>, job, outcome.get()); });
  return *outcome;
}

void ExpectRemoteAccess(const Status& status) {
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(static_cast<mlx5::Syndrome>(status.syndrome), mlx5::Syndrome::kRemoteAccess)
      << host::Describe(status);
}

TEST_P(Failures, WrongKeyIsReportedToKernelAndHostUntilReset) {
  Pair pair({.placement = GetParam()});
  for (int round = 0; round < 3; ++round) {
    Job job = JobOf(pair);
    job.remote.rkey.raw ^= 0x01000000;
    const Outcome failed = RunPut(pair, job);
    EXPECT_TRUE(IsOk(failed.posted));
    ExpectRemoteAccess(failed.waited);
    EXPECT_LT(failed.ns, kTimeoutNs);
    const auto error = pair.a.LastError();
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->syndrome, failed.waited.syndrome) << "the host reports the same";
    EXPECT_EQ(error->vendor_syndrome, failed.waited.vendor_syndrome);
    ExpectRemoteAccess(RunPut<Shared>(pair, JobOf(pair)).posted);  // the error lasts
    pair.Reconnect();
    EXPECT_EQ(pair.a.LastError(), std::nullopt);
    pair.source.SetWord(0, 100 + round);
    EXPECT_TRUE(IsOk(RunPut(pair, JobOf(pair)).waited));
    EXPECT_EQ(pair.target.Word(0), 100U + round);
  }
}

TEST_P(Failures, EachSyndromeIsReportedToTheKernel) {
  Pair pair({.placement = GetParam()});
  for (const auto syndrome :
       {mlx5::Syndrome::kLocalLength, mlx5::Syndrome::kLocalProtection, mlx5::Syndrome::kRemoteInvalidRequest,
        mlx5::Syndrome::kRemoteOperation, mlx5::Syndrome::kTransportRetryExceeded,
        mlx5::Syndrome::kReceiverNotReadyRetryExceeded}) {
    e2e::Force(pair.device(), pair.a, 2, syndrome, 0x42);
    Job job = JobOf(pair);
    job.posts = 3;  // no WQE behind it: its flush would replace the error in a collapsed CQ
    const Outcome outcome = RunPut(pair, job);
    const Status& status = outcome.posted.ok() ? outcome.waited : outcome.posted;
    EXPECT_EQ(status.code, Code::kError);
    EXPECT_EQ(static_cast<mlx5::Syndrome>(status.syndrome), syndrome) << host::Describe(status);
    EXPECT_EQ(status.vendor_syndrome, 0x42);
    ASSERT_TRUE(pair.a.LastError().has_value());
    EXPECT_EQ(static_cast<mlx5::Syndrome>(pair.a.LastError()->syndrome), syndrome);
    pair.Reconnect();
  }
}

TEST_P(Failures, PeerThatIsGoneEndsTheWait) {
  Pair pair({.placement = GetParam(), .a = {.retry = {.ack_timeout = 8, .retry_count = 2}}});
  pair.b.Reset();
  const Outcome outcome = RunPut(pair, JobOf(pair));
  EXPECT_EQ(outcome.waited.code, Code::kError);
  EXPECT_EQ(static_cast<mlx5::Syndrome>(outcome.waited.syndrome), mlx5::Syndrome::kTransportRetryExceeded)
      << host::Describe(outcome.waited);
  EXPECT_LT(outcome.ns, kTimeoutNs);
}

TEST_P(Failures, WaitsEndAtTheDeadline) {
  const Pair pair({.placement = GetParam()});
  const e2e::Hold hold(pair.device(), pair.a);
  Job job = JobOf(pair);
  job.timeout_ns = 50'000'000;
  const Outcome outcome = RunPut(pair, job);
  EXPECT_TRUE(IsOk(outcome.posted));
  EXPECT_EQ(outcome.waited.code, Code::kTimeout);
  EXPECT_GE(outcome.ns, job.timeout_ns);
  EXPECT_LT(outcome.ns, kTimeoutNs);
}

TEST_P(Failures, FullQueueTimesOutAndWorksAgainWhenSlotsAreFree) {
  const Pair pair({.placement = GetParam(), .a = {.depth = 8}});
  Job job = JobOf(pair);
  job.posts = 9;
  job.timeout_ns = 50'000'000;
  {
    const e2e::Hold hold(pair.device(), pair.a);
    EXPECT_EQ(RunPut(pair, job).posted.code, Code::kTimeout) << "the queue has no slot for the ninth";
  }
  job.timeout_ns = kTimeoutNs;
  pair.source.SetWord(0, 4711);
  EXPECT_TRUE(IsOk(RunPut(pair, job).waited));
  EXPECT_EQ(pair.target.Word(0), 4711U);
}

TEST_P(Failures, AbortWordEndsAWait) {
  const Pair pair({.placement = GetParam()});
  const e2e::Hold hold(pair.device(), pair.a);
  const Mapped<uint64_t> abort(pair.gpu_a), waiting(pair.gpu_a);
  Job job = JobOf(pair);
  job.abort = abort.get();
  job.waiting = waiting.get();
  const std::jthread aborter([&] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kTimeoutNs);
    while (std::atomic_ref(*waiting).load() == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    std::atomic_ref(*abort).store(1);
  });
  const Outcome outcome = RunPut(pair, job);
  EXPECT_TRUE(IsOk(outcome.posted));
  EXPECT_EQ(outcome.waited.code, Code::kAborted);
  EXPECT_LT(outcome.ns, kTimeoutNs);
}

TEST_P(Failures, OneErrorIsReportedToAllBlocks) {
  Pair pair({.placement = GetParam(), .a = {.depth = 16}});
  const Mapped<Outcome> outcomes(pair.gpu_a, 64);
  Job job = JobOf(pair);
  job.remote.rkey.raw ^= 0x01000000;
  job.posts = 20;
  WithArch(pair.scope(), [&](auto arch) {
    Load(Put<decltype(arch), Shared>);
    std::vector<std::unique_ptr<CudaStream>> streams;
    for (size_t i = 0; i < outcomes.size(); ++i) {
      streams.push_back(std::make_unique<CudaStream>(0));
      Put<decltype(arch), Shared><<<1, 1, 0, streams.back()->get()>>>(job, &outcomes[i]);
    }
    for (const auto& stream : streams) stream->Wait();
  });
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Status status = outcomes[i].posted.ok() ? outcomes[i].waited : outcomes[i].posted;
    EXPECT_EQ(status.code, Code::kError) << i << ": " << host::Describe(status);
    EXPECT_LT(outcomes[i].ns, kTimeoutNs);
  }
  const auto error = pair.a.LastError();
  ASSERT_TRUE(error.has_value());
}

}  // namespace
}  // namespace warpverbs::gpu
