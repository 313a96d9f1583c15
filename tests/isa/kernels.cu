// Kernels that use the data path. The compiler's command line includes the arch's header and defines ARCH.
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/device/signal.hpp"

using A = warpverbs::arch::ARCH;
using namespace warpverbs::device;
using warpverbs::mlx5::Be32;

struct Job {
  QueueView queue;
  RemoteMemory remote;
  LocalMemory local;
  uint32_t count;  // number of posts or batches
  Status* result;
};

namespace {

constexpr uint32_t kBatch = 16;
constexpr uint64_t kLimitNs = 1'000'000;

template <class Queue>
WARPVERBS_DEVICE void PostEach(Queue queue, const Job& job) {
  Status status;
#pragma unroll 1
  for (uint32_t i = 0; i < job.count && status.ok(); ++i) {
    status = queue.Post(Write(job.remote, job.local)).status;
  }
  *job.result = status;
}

template <class Queue>
WARPVERBS_DEVICE void PostBatches(Queue queue, const Job& job) {
  Status status;
#pragma unroll 1
  for (uint32_t i = 0; i < job.count && status.ok(); ++i) {
    auto batch = queue.Begin(kBatch);
#pragma unroll 1
    for (uint32_t j = 0; j < kBatch; ++j) static_cast<void>(batch.Add(Write(job.remote, job.local)));
    status = batch.Submit().status;
  }
  *job.result = status;
}

/// Each thread of a group writes its own 8 bytes.
template <class Queue>
WARPVERBS_DEVICE void PostTogether(Queue queue, const Job& job, uint32_t rank) {
  const uint64_t offset = rank * sizeof(uint64_t);
  const RemoteMemory remote{job.remote.addr + offset, job.remote.rkey};
  const LocalMemory local{job.local.addr + offset, job.local.bytes, job.local.lkey};
  Status status;
#pragma unroll 1
  for (uint32_t i = 0; i < job.count && status.ok(); ++i) status = queue.Post(Write(remote, local)).status;
  job.result[rank] = status;
}

template <class Queue>
WARPVERBS_DEVICE void PostAndWait(Queue queue, const Job& job) {
  const Posted posted = queue.Post(Write(job.remote, job.local), {A::NowNs() + kLimitNs});
  *job.result = posted.status.ok() ? queue.Wait(posted.ticket, {A::NowNs() + kLimitNs}) : posted.status;
}

template <class Queue>
WARPVERBS_DEVICE void PostAndWaitEach(Queue queue, const Job& job) {
  Status status;
#pragma unroll 1
  for (uint32_t i = 0; i < job.count && status.ok(); ++i) {
    const Posted posted = queue.Post(Write(job.remote, job.local), {A::NowNs() + kLimitNs});
    status = posted.status.ok() ? queue.Wait(posted.ticket, {A::NowNs() + kLimitNs}) : posted.status;
  }
  *job.result = status;
}

}  // namespace

extern "C" __global__ void LowLevelPost(Job job) {
  const RawSendQueue<A> ring(job.queue);
  const auto doorbell = ring.PostWrite(job.count, job.remote, job.local);
  ring.UpdateSendDbrRecord(job.count + 1);
  ring.RingDoorbell(doorbell);
}

/// Polls a collapsed CQ. The compiler knows it, and leaves out the search of a ring.
extern "C" __global__ void LowLevelPoll(Job job) {
  QueueView queue = job.queue;
  queue.cq_depth = 1;
  *job.result = RawSendQueue<A>(queue).PollCqOnce(job.count);
}

extern "C" __global__ void PostExclusive(Job job) { PostEach(SendQueue<A, Exclusive>(job.queue), job); }
extern "C" __global__ void PostShared(Job job) { PostEach(SendQueue<A, Shared>(job.queue), job); }
extern "C" __global__ void PostRelaxedShared(Job job) {
  PostEach(SendQueue<A, RelaxedShared>(job.queue), job);
}
extern "C" __global__ void BatchExclusive(Job job) { PostBatches(SendQueue<A, Exclusive>(job.queue), job); }
extern "C" __global__ void WarpExclusive(Job job) {
  PostTogether(SendQueue<A, Exclusive, Warp>(job.queue, Warp(A::ActiveLanes())), job, A::Lane());
}
extern "C" __global__ void WarpShared(Job job) {
  PostTogether(SendQueue<A, Shared, Warp>(job.queue, Warp(A::ActiveLanes())), job, A::Lane());
}
extern "C" __global__ void BlockShared(Job job) {
  PostTogether(SendQueue<A, Shared, Block>(job.queue, Block(A::ActiveLanes())), job, A::BlockRank());
}
extern "C" __global__ void PostAndWaitExclusive(Job job) {
  PostAndWait(SendQueue<A, Exclusive>(job.queue), job);
}
extern "C" __global__ void PostAndWaitShared(Job job) { PostAndWait(SendQueue<A, Shared>(job.queue), job); }
extern "C" __global__ void PostAndWaitEachExclusive(Job job) {
  PostAndWaitEach(SendQueue<A, Exclusive>(job.queue), job);
}
extern "C" __global__ void PostAndWaitEachShared(Job job) {
  PostAndWaitEach(SendQueue<A, Shared>(job.queue), job);
}

// These kernels have no limit. They must compile for every processor.

extern "C" __global__ void EveryOperation(Job job) {
  SendQueue<A, Exclusive> queue(job.queue);
  auto batch = queue.Begin(kBatch * 2);
  bool added = true;
  const auto add = [&](const auto& operation) { added &= batch.Add(operation).status.ok(); };
  add(WriteImm(job.remote, job.local, Be32{1}));
  add(WriteInline<uint64_t>{job.remote, 1});
  add(Read(job.remote, job.local));
  add(Send(job.local));
  add(SendImm(job.local, Be32{1}));
  add(FetchAdd<uint32_t>(job.remote, 1));
  add(FetchAdd<uint64_t>(job.remote, 1));
  add(CompareSwap<uint64_t>(job.remote, {1, 2}));
  add(MaskedFetchAdd<uint64_t>(job.remote, 1, 2));
  add(MaskedCompareSwap<uint32_t>(job.remote, {1, 2, 3, 4}));
  add(Swap<uint64_t>(job.remote, 1, job.local));
  add(FetchAnd<uint32_t>(job.remote, 1));
  add(FetchOr<uint64_t>(job.remote, 1));
  add(FetchXor<uint32_t>(job.remote, 1));
  add(WaitCq{1, job.count});
  add(Dump{job.local});
  add(Fence{});
  add(PutSignal(job.remote, job.local, SignalAdd(job.remote)));
  const Status status = batch.Submit().status;
  *job.result = added && status.ok() ? queue.Flush({A::NowNs() + kLimitNs}) : status;
}

extern "C" __global__ void Receive(ReceiveQueueView view, LocalMemory local, Received* result) {
  ReceiveQueue<A> queue(view);
  *result = {queue.Post(local)};
  queue.Submit();
  if (result->status.ok()) *result = queue.Poll({A::NowNs() + kLimitNs});
}

extern "C" __global__ void AwaitSignal(const uint64_t* word, Status* result) {
  *result = WaitSignal<A>(word, Compare::kGreaterOrEqual, 1, {A::NowNs() + kLimitNs});
}
